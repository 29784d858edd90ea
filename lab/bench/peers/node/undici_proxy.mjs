// The least that a proxy of Node.js and undici can do: read the body, post it, give back what comes.
// Usage: node undici_proxy.mjs PORT SERVICE_URL
import { createServer } from 'node:http';
import { Pool } from 'undici';

const [port, service] = process.argv.slice(2);
const { origin, pathname } = new URL(service);
const pool = new Pool(origin, { connections: 512 });
const headers = { 'content-type': 'application/json' };

async function answer(body, response) {
  try {
    const answered = await pool.request({ path: pathname, method: 'POST', headers, body });
    const content = Buffer.from(await answered.body.arrayBuffer());
    response.writeHead(answered.statusCode, { 'content-type': 'application/json', 'content-length': content.length });
    response.end(content);
  } catch (error) {
    response.writeHead(502);
    response.end(String(error));
  }
}

createServer((request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => answer(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks), response));
}).listen(Number(port), '127.0.0.1');
