// A login by the npm clients: from nothing but an address to a call, with a person at the browser.
//
// Usage: node login.mjs '{"client": "sdk" (1.x) or "client" (2.x), "era", "url", "tool", "arguments", "clientId"}'
// With "key" it shows that API key and logs in nowhere; with "more" it calls these tools, too, before: [[tool, arguments]].
//
// It prints {"open": URL} where the person's browser would go, and reads what the redirect URI is given, as JSON. In the
// end it prints {"tools", "failed", "content", "registered", "scope"}, or {"failure"}. Without clientId it registers.
import { createInterface } from 'node:readline';

const REDIRECT = 'http://127.0.0.1:3030/callback';
const MOST_LOGINS = 3;
const order = JSON.parse(process.argv[2]);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

class Memory {
  redirectUrl = REDIRECT;
  registered = 0;
  #client = order.clientId && { client_id: order.clientId };
  #discovered;
  #tokens;
  #verifier;
  opened;

  clientMetadata = {
    client_name: 'tests',
    redirect_uris: [REDIRECT],
    grant_types: ['authorization_code'],
    token_endpoint_auth_method: 'none',
  };

  clientInformation = () => this.#client;
  saveClientInformation = (client) => {
    if (client.client_id !== this.#client?.client_id) this.registered += 1;
    this.#client = client;
  };
  discoveryState = () => this.#discovered;
  saveDiscoveryState = (state) => (this.#discovered = state);
  tokens = () => this.#tokens;
  saveTokens = (tokens) => (this.#tokens = tokens);
  codeVerifier = () => this.#verifier;
  saveCodeVerifier = (verifier) => (this.#verifier = verifier);
  redirectToAuthorization = (url) => (this.opened = url);
}

async function parts() {
  if (order.client === 'client') return import('@modelcontextprotocol/client');
  const [{ Client }, { StreamableHTTPClientTransport }, { UnauthorizedError }] = await Promise.all([
    import('@modelcontextprotocol/sdk/client/index.js'),
    import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
    import('@modelcontextprotocol/sdk/client/auth.js'),
  ]);
  return { Client, StreamableHTTPClientTransport, UnauthorizedError };
}

const { Client, StreamableHTTPClientTransport, UnauthorizedError } = await parts();
const memory = new Memory();

/** What the redirect URI is given after a person was at the authorization server. */
async function answered() {
  console.log(JSON.stringify({ open: memory.opened }));
  const { value } = await lines.next();
  return JSON.parse(value);
}

async function attempt(transport) {
  const mode = ['legacy', 'auto'].includes(order.era) ? order.era : { pin: order.era };
  const client = new Client({ name: 'login-driver', version: '1.0.0' }, { versionNegotiation: { mode } });
  try {
    await client.connect(transport);
    const { tools } = await client.listTools();
    const before = [];
    for (const [name, args] of order.more ?? []) before.push(await client.callTool({ name, arguments: args }));
    const result = await client.callTool({ name: order.tool, arguments: order.arguments });
    const failed = [...before, result].some(({ isError }) => isError);
    return { tools: tools.map(({ name }) => name), failed, content: result.content };
  } finally {
    await client.close();
  }
}

async function login() {
  for (let logins = 0; ; logins += 1) {
    const how = order.key ? { requestInit: { headers: { Authorization: `Bearer ${order.key}` } } } : { authProvider: memory };
    const transport = new StreamableHTTPClientTransport(new URL(order.url), how);
    try {
      const { registered } = memory;
      return { ...(await attempt(transport)), registered, logins, scope: memory.tokens()?.scope };
    } catch (error) {
      if (!(error instanceof UnauthorizedError) || logins === MOST_LOGINS) throw error;
      const { code, iss, error: refusal } = await answered();
      if (refusal) throw new Error(`the redirect URI got ${refusal}`);
      await transport.finishAuth(code, iss);
    }
  }
}

const said = await login().catch((error) => ({ failure: String(error?.stack ?? error) }));
console.log(JSON.stringify(said));
process.exit(0);
