// The door of a server under test: counts what comes in, and answers in the server's place where a test says so.
//
// Tests speak to it on a port of its own, in JSON:
//   GET    /fetches          how often each path was asked for: {"/jwks": 2}
//   DELETE /fetches          counts from zero
//   PUT    /disturbances     {path: answer, ...}; an answer is {status, headers, body (base64), padding, cut},
//                            {"hold": true} (nothing, until the disturbances end) or {"reset": true}
//   DELETE /disturbances     the server itself answers again, what was held first
//   GET    /held?path=...    answers as soon as a request for the path is held
//   any    /genuine/...      what the server answers itself, uncounted
// and in the server's own commands: {"PUT /keys": async (body) => answer}.

import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";

const HOST = "127.0.0.1";
const MOVED = "/moved/";
const PADDING = Buffer.alloc(64 * 1024, " ");

class Door {
  #handle;
  #fetches = {};
  #disturbances = {};
  #held = [];
  #waiting = [];

  constructor(handle) {
    this.#handle = handle;
    this.commands = {
      "GET /fetches": () => this.#fetches,
      "DELETE /fetches": () => (this.#fetches = {}),
      "PUT /disturbances": (disturbances) => Object.assign(this.#disturbances, disturbances),
      "DELETE /disturbances": () => this.#restore(),
      "GET /held": (_, query) => this.#isHeld(query.get("path")),
    };
  }

  enter(request, response) {
    const { pathname } = new URL(request.url, "http://door");
    this.#fetches[pathname] = (this.#fetches[pathname] ?? 0) + 1;
    // Where redirects lead is what they lead away from.
    if (pathname.startsWith(MOVED)) request.url = request.url.slice(MOVED.length - 1);
    const answer = this.#disturbances[pathname];
    if (answer === undefined) return this.#handle(request, response);
    if (answer.hold) return this.#hold(pathname, request, response);
    if (answer.reset) return request.socket.resetAndDestroy();
    return play(answer, request, response);
  }

  #hold(path, request, response) {
    this.#held.push({ path, request, response });
    this.#waiting = this.#waiting.filter(({ path: wanted, resolve }) => wanted !== path || resolve());
  }

  #isHeld(path) {
    if (this.#held.some((one) => one.path === path)) return undefined;
    return new Promise((resolve) => this.#waiting.push({ path, resolve }));
  }

  #restore() {
    this.#disturbances = {};
    for (const { request, response } of this.#held.splice(0)) this.#handle(request, response);
  }
}

async function play({ status, headers, body, padding, cut }, request, response) {
  const content = Buffer.from(body, "base64");
  // A message is cut where fewer bytes come than its length promises.
  const length = cut ? { "content-length": padding + content.length + 1 } : {};
  response.writeHead(status, { ...headers, ...length });
  for (let left = padding; left > 0; left -= PADDING.length) {
    if (response.destroyed) return;
    if (!response.write(PADDING.subarray(0, left))) await writable(response);
  }
  if (cut) response.write(content, () => request.socket.destroy());
  else response.end(content);
}

function writable(response) {
  return new Promise((resolve) => {
    response.once("drain", resolve).once("close", resolve);
  });
}

async function json(request) {
  const chunks = await request.toArray();
  return chunks.length === 0 ? undefined : JSON.parse(Buffer.concat(chunks));
}

async function obey(commands, handle, request, response) {
  if (request.url.startsWith("/genuine/")) {
    request.url = request.url.slice("/genuine".length);
    return handle(request, response);
  }
  const { pathname, searchParams } = new URL(request.url, "http://door");
  const command = commands[`${request.method} ${pathname}`];
  const [status, answer] = command
    ? [200, await command(await json(request), searchParams)]
    : [404, { error: `${request.method} ${pathname} is no command` }];
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(answer ?? null));
}

function listen(server, port) {
  return new Promise((resolve, reject) => {
    server.once("error", reject).listen(port, HOST, resolve);
  });
}

/**
 * Opens a server to the tests: `handle` answers requests at `port`, `commands` are obeyed at `controlPort`. With the
 * file `pem`, which has a key and certificates, `port` speaks https.
 * The process ends with `parent`, the one that started it.
 */
export async function open({ port, controlPort, parent, pem, handle, commands = {} }) {
  const door = new Door(handle);
  const all = { ...door.commands, ...commands };
  const control = (request, response) =>
    obey(all, handle, request, response).catch((error) => {
      console.error(error);
      response.writeHead(500, { "content-type": "application/json" }).end(JSON.stringify({ error: error.message }));
    });
  const enter = (request, response) => door.enter(request, response);
  const shown = pem && readFileSync(pem);
  await listen(http.createServer(control), controlPort);
  await listen(pem ? https.createServer({ key: shown, cert: shown }, enter) : http.createServer(enter), port);
  setInterval(() => process.ppid === parent || process.exit(), 1000);
}
