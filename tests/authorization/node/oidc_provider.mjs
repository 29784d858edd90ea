// A real authorization server: npm oidc-provider behind a door (door.mjs).
//
// Usage: node oidc_provider.mjs '{"port": N, "controlPort": N, "parent": PID, "clients": [...],
//                                 "resourceServer": id, "pem": FILE (then it speaks https),
//                                 "resources": [{"identifier", "scopes", "format", "alg", "lifetime"}]}'
//
// It differs from one with people in two things: whoever comes is logged in at once, as the login_hint or "alice"
// (the login_hint "deny" declines), and consents to all that is asked for. All the rest is the library, with dynamic
// client registration, introspection, revocation, DPoP and resource indicators; token_exchange.mjs adds a grant.
//
// Command, besides the door's: PUT /keys [2, 1] publishes these generations of keys and signs with the first.

import { randomBytes } from "node:crypto";
import Provider, { errors } from "oidc-provider";
// The library's own store, but one that outlives a Provider: see serve().
import { createMemoryAdapter } from "oidc-provider/lib/adapters/memory_adapter.js";

import { open } from "./door.mjs";
import { keysOf, publicPart } from "./keys.mjs";
import { registerTokenExchange } from "./token_exchange.mjs";

const options = JSON.parse(process.argv[2]);
const issuer = `${options.pem ? "https" : "http"}://127.0.0.1:${options.port}`;
const PERSON = "/person/";
const adapter = createMemoryAdapter();
const cookieKeys = [randomBytes(32).toString("hex")];

const resources = new Map(
  options.resources.map(({ identifier, scopes, format, alg, lifetime }) => [
    identifier,
    {
      scope: scopes.join(" "),
      audience: identifier,
      accessTokenFormat: format,
      accessTokenTTL: lifetime,
      jwt: { sign: { alg } },
    },
  ]),
);

function resourceServerInfo(ctx, identifier) {
  if (!resources.has(identifier)) throw new errors.InvalidTarget();
  return resources.get(identifier);
}

// Who made a token by exchange is its actor (RFC 8693 §4.1).
function extraClaims(ctx, token) {
  return token.gty === "token_exchange" ? { act: { sub: token.clientId } } : undefined;
}

async function grantAll(ctx) {
  const { oidc } = ctx;
  const grant = new oidc.provider.Grant({ accountId: oidc.session.accountId, clientId: oidc.client.clientId });
  grant.addOIDCScope([...oidc.requestParamOIDCScopes].join(" "));
  for (const [identifier, server] of Object.entries(oidc.resourceServers)) {
    grant.addResourceScope(identifier, [...oidc.requestParamScopes].filter((scope) => server.scopes.has(scope)));
  }
  await grant.save();
  return grant;
}

function configuration(keys) {
  return {
    adapter,
    clients: options.clients,
    jwks: { keys },
    cookies: { keys: cookieKeys },
    scopes: ["openid", "offline_access", ...new Set(options.resources.flatMap(({ scopes }) => scopes))],
    // PKCE for every client, as OAuth 2.1 has it.
    pkce: { required: () => true },
    loadExistingGrant: grantAll,
    findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    extraTokenClaims: extraClaims,
    issueRefreshToken: (ctx, client) => client.grantTypeAllowed("refresh_token"),
    interactions: { url: (ctx, interaction) => PERSON + interaction.uid },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      introspection: {
        enabled: true,
        allowedPolicy: (ctx, client, token) =>
          client.clientId === options.resourceServer || client.clientId === token.clientId,
      },
      revocation: { enabled: true },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: resourceServerInfo,
        // A client that names its resource once, at the authorization endpoint, gets a token for it.
        useGrantedResource: () => true,
      },
    },
  };
}

async function answerForPerson(provider, request, response) {
  const { params, prompt } = await provider.interactionDetails(request, response);
  const account = params.login_hint ?? "alice";
  let result = { login: { accountId: account } };
  // Native clients need a consent each time (RFC 8252 §8.6); what is granted, loadExistingGrant says.
  if (prompt.name === "consent") result = { consent: {} };
  if (account === "deny") result = { error: "access_denied", error_description: "the person declined" };
  await provider.interactionFinished(request, response, result);
}

let answer;

// The library reads its keys once: other keys are another Provider, which shares what the first one stored.
async function serve(generations) {
  const keys = await keysOf(generations);
  const provider = new Provider(issuer, configuration(keys));
  provider.on("server_error", (ctx, error) => console.error(error));
  registerTokenExchange(provider, { resources, publicKeys: keys.map(publicPart) });
  provider.use((ctx, next) => {
    if (!ctx.path.startsWith(PERSON)) return next();
    ctx.respond = false;
    return answerForPerson(provider, ctx.req, ctx.res);
  });
  answer = provider.callback();
}

await serve([1]);
await open({
  ...options,
  handle: (request, response) => answer(request, response),
  commands: { "PUT /keys": serve },
});
