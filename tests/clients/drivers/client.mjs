// npm @modelcontextprotocol/client 2, in its modes legacy, auto and pinned to 2026-07-28. See driving.mjs.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { drive, scenarios, transport } from './driving.mjs';

async function connect(order, options) {
  const mode = ['legacy', 'auto'].includes(order.era) ? order.era : { pin: order.era };
  const client = new Client({ name: 'client-driver', version: '1.0.0' }, { ...options, versionNegotiation: { mode } });
  client.callOptions = [];
  client.onQuestion = (answer) => client.setRequestHandler('elicitation/create', answer);
  await client.connect(transport(order, StreamableHTTPClientTransport, StdioClientTransport));
  return client;
}

await drive(scenarios(connect));
