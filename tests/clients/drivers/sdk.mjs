// npm @modelcontextprotocol/sdk 1, which speaks 2025-11-25 and older. See driving.mjs.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { drive, scenarios, transport } from './driving.mjs';

async function connect(order, options) {
  const client = new Client({ name: 'sdk-driver', version: '1.0.0' }, options);
  // The schema of the result stands before the options.
  client.callOptions = [undefined];
  client.onQuestion = (answer) => client.setRequestHandler(ElicitRequestSchema, answer);
  await client.connect(transport(order, StreamableHTTPClientTransport, StdioClientTransport));
  return client;
}

await drive(scenarios(connect));
