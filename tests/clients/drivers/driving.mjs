// What the programs for the npm clients share: the same as driving.py, with the same orders and answers.
import { createInterface } from 'node:readline';

const PATIENCE = 15_000;

/** Answer orders until standard input ends. `scenarios` maps names to async functions of `{era, scenario, url, token}`. */
export async function drive(scenarios) {
  const era = process.argv[2];
  for await (const line of createInterface({ input: process.stdin })) {
    const order = { era, ...JSON.parse(line) };
    let observed;
    try {
      observed = await bounded(scenarios[order.scenario](order));
    } catch (error) {
      observed = { failure: String(error?.stack ?? error) };
    }
    console.log(JSON.stringify(observed));
  }
  // What a client may have left behind must not keep the process.
  process.exit(0);
}

async function bounded(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end within ${PATIENCE} ms`)), PATIENCE);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** The transport of an order: `url` is a URL, or the command of a server on standard input and output. */
export function transport(order, Http, Stdio) {
  const [command, ...args] = Array.isArray(order.url) ? order.url : [];
  return command ? new Stdio({ command, args }) : new Http(new URL(order.url));
}

/** The scenarios of a client whose `connect(order, options)` gives an object with both npm clients' methods. */
export function scenarios(connect) {
  /** Run `use` with a client, which is closed in the end. */
  const connected = async (order, options, use) => {
    const client = await connect(order, options);
    try {
      return await use(client);
    } finally {
      await client.close();
    }
  };

  const list = (order) => connected(order, {}, async (client) => ({ ...(await allTools(client)) }));

  const call = (order) =>
    connected(order, {}, async (client) => {
      const good = await client.callTool({ name: 'add', arguments: { a: 2, b: 3 } });
      const bad = await client.callTool({ name: 'fail', arguments: {} });
      return {
        structured: good.structuredContent,
        failed: good.isError ?? false,
        error: bad.isError ?? false,
        message: bad.content?.[0]?.text ?? '',
      };
    });

  /** These clients list anew by themselves, and hand over what they found. */
  const change = (order) => {
    let heard = 0;
    let seen;
    const after = new Promise((resolve) => (seen = resolve));
    const onChanged = (error, tools) => {
      heard += 1;
      const names = (tools ?? []).map((tool) => tool.name);
      if (error || names.includes(order.token)) seen({ names, error });
    };
    return connected(order, { listChanged: { tools: { onChanged } } }, async (client) => {
      const { tools: before } = await allTools(client);
      await client.callTool({ name: 'grow', arguments: { name: order.token } });
      const { names, error } = await after;
      if (error) throw error;
      return { before, after: names, heard };
    });
  };

  const cancel = (order) =>
    connected(order, {}, async (client) => {
      const ask = (name, options) => client.callTool({ name, arguments: { token: order.token } }, ...options);
      const stop = new AbortController();
      const outcome = ask('slow', [...client.callOptions, { signal: stop.signal }]).then(
        (result) => `result: ${JSON.stringify(result)}`,
        (error) => String(error),
      );
      const begun = await ask('await_slow', []);
      stop.abort('no longer wanted');
      const stopped = await ask('await_stopped', []);
      return { begun: begun.structuredContent, outcome: await outcome, stopped: stopped.structuredContent };
    });

  /** `client.onQuestion(answer)` has the client ask its user by `answer`. */
  const ask = (order) =>
    connected(order, { capabilities: { elicitation: {} } }, async (client) => {
      const asked = [];
      client.onQuestion((request) => {
        asked.push(request.params.message);
        return { action: 'accept', content: {} };
      });
      const result = await client.callTool({ name: 'agree', arguments: { token: order.token } });
      return { asked, structured: result.structuredContent, failed: result.isError ?? false };
    });

  const killed = (order) =>
    connected(order, {}, async (client) => ({
      survived: await client.callTool({ name: 'slow', arguments: { token: order.token } }),
    }));

  return { list, call, page: list, change, cancel, killed, ask };
}

/** Names, by cursor, and the number of pages. A client that goes through the pages itself says one. */
async function allTools(client) {
  const names = [];
  let pages = 0;
  let cursor;
  do {
    const page = await client.listTools(cursor === undefined ? undefined : { cursor });
    names.push(...page.tools.map((tool) => tool.name));
    pages += 1;
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return { tools: names, pages };
}
