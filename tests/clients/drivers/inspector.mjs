// npm @modelcontextprotocol/inspector 2 on its command line, in the eras legacy and modern. See driving.mjs.
//
// Each request is a process of its own, which connects, asks once and ends.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { drive } from './driving.mjs';

const manifest = createRequire(import.meta.url).resolve('@modelcontextprotocol/inspector/package.json');
const PROGRAM = join(dirname(manifest), 'clients', 'cli', 'build', 'index.js');

const TOOL_ERROR = 5;

/** Exit code and result of one request. Raises where the inspector printed none. */
async function inspect(order, ...method) {
  const target = [order.url, '--transport', 'http', '--protocol-era', order.era, '--stored-auth-only'];
  const options = [PROGRAM, ...target, '--format', 'json', '--quiet', '--method', ...method];
  const child = spawn(process.execPath, options, { stdio: ['ignore', 'pipe', 'pipe'] });
  let [out, err] = ['', ''];
  child.stdout.on('data', (data) => (out += data));
  child.stderr.on('data', (data) => (err += data));
  const code = await new Promise((resolve) => child.on('close', resolve));
  try {
    return { code, result: JSON.parse(out).result };
  } catch {
    throw new Error(`the inspector ended with ${code}\n${out}\n${err}`);
  }
}

async function list(order) {
  const { result } = await inspect(order, 'tools/list');
  return { tools: result.tools.map((tool) => tool.name) };
}

function ask(order, name, values) {
  return inspect(order, 'tools/call', '--tool-name', name, '--tool-args-json', JSON.stringify(values));
}

async function call(order) {
  const good = await ask(order, 'add', { a: 2, b: 3 });
  const bad = await ask(order, 'fail', {});
  return {
    structured: good.result.structuredContent,
    failed: good.code !== 0,
    error: bad.code === TOOL_ERROR,
    message: bad.result.content?.[0]?.text ?? '',
  };
}

const killed = async (order) => ({ survived: await ask(order, 'slow', { token: order.token }) });

await drive({ list, call, page: list, killed });
