// npm ai 7 with @ai-sdk/mcp 2: `createMCPClient` and its tools. The orders are those of offering.py.
import { createMCPClient } from '@ai-sdk/mcp';
import { asSchema } from 'ai';
import { drive } from './driving.mjs';

/** Run `use` with the tools by name, as an agent has them. */
async function offered(order, use) {
  const client = await createMCPClient({ transport: { type: 'http', url: order.url } });
  try {
    return await use(await client.tools());
  } finally {
    await client.close();
  }
}

const list = (order) =>
  offered(order, async (tools) => {
    const shown = {};
    for (const [name, tool] of Object.entries(tools)) shown[name] = await asSchema(tool.inputSchema).jsonSchema;
    return { tools: Object.keys(tools), shown: shown[order.tool] };
  });

const call = (order) =>
  offered(order, async (tools) => {
    const result = await tools[order.tool].execute(order.arguments, { toolCallId: '1', messages: [] });
    const text = result.content.map((part) => part.text ?? '').join('\n');
    return { became: result.isError ? 'isError of the result' : 'result', text };
  });

await drive({ list, call });
