// A server as somebody writes it by hand with the official TypeScript SDK 2: one tool, answers as JSON, one undici pool.
// Usage: node mcp_server.mjs PORT SERVICE_URL
import { createServer } from 'node:http';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { Pool } from 'undici';
import { z } from 'zod';

const [port, service] = process.argv.slice(2);
const { origin, pathname } = new URL(service);
const pool = new Pool(origin, { connections: 512 });
const headers = { 'content-type': 'application/json' };
const inputSchema = z.object({
  customer: z.string().max(64),
  status: z.enum(['open', 'paid', 'shipped']),
  limit: z.number().int().min(1).max(100),
});
let calls = 0;

async function find(params) {
  const body = JSON.stringify({ jsonrpc: '2.0', id: ++calls, method: 'order_find', params });
  const { result } = await (await pool.request({ path: pathname, method: 'POST', headers, body })).body.json();
  return { content: [{ type: 'text', text: JSON.stringify(result) }], structuredContent: result };
}

function server() {
  const made = new McpServer({ name: 'bench', version: '1.0.0' });
  const description = 'Find the orders of a customer that are in a given state, the newest first';
  made.registerTool('order_find', { description, inputSchema }, find);
  return made;
}

const handler = createMcpHandler(server, { responseMode: 'json' });

async function answer(request, body, response) {
  const asked = { method: request.method, headers: request.headers };
  const url = `http://127.0.0.1:${port}${request.url}`;
  const answered = await handler.fetch(new Request(url, { ...asked, body }), { parsedBody: JSON.parse(body) });
  const content = Buffer.from(await answered.arrayBuffer());
  response.writeHead(answered.status, { 'content-type': 'application/json', 'content-length': content.length });
  response.end(content);
}

createServer((request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => answer(request, Buffer.concat(chunks), response));
}).listen(Number(port), '127.0.0.1');
