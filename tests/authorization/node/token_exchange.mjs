// OAuth 2.0 Token Exchange (RFC 8693), which oidc-provider leaves to those who run it.
//
// A confidential client brings an access token of this server, for whatever resource, and gets one for `resource` or
// `audience`, which both name one of the server's resources. The new token says for whom (sub) and by whom (act), and
// does not outlive the one it was made from. Policy: scopes that are asked for must be the target's; without any, the
// new token has those of the old one that the target knows. Actor tokens and tokens other than access tokens are
// refused. The issuer's own tokens may be opaque (looked up) or signed (verified with the keys it publishes now).

import { createLocalJWKSet, jwtVerify } from "jose";
import { errors } from "oidc-provider";

export const TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token";
const JWT = "urn:ietf:params:oauth:token-type:jwt";
const PARAMETERS = [
  "subject_token",
  "subject_token_type",
  "requested_token_type",
  "actor_token",
  "actor_token_type",
  "resource",
  "audience",
  "scope",
];

// RFC 8693 §2.2.2: a subject token that is invalid, for whatever reason, is invalid_request.
const refuse = (reason) => {
  throw new errors.InvalidRequest(reason);
};

function checkTypes(params) {
  if (!params.subject_token) refuse("subject_token is missing");
  if (![ACCESS_TOKEN, JWT].includes(params.subject_token_type)) refuse("subject_token must be an access token");
  if (![undefined, ACCESS_TOKEN, JWT].includes(params.requested_token_type)) refuse("only access tokens are issued");
  if (params.actor_token || params.actor_token_type) refuse("actor tokens are not supported");
}

async function subjectOf(provider, token, keys) {
  const stored = (await provider.AccessToken.find(token)) ?? (await provider.ClientCredentials.find(token));
  if (stored?.isValid) {
    return { sub: stored.accountId ?? stored.clientId, scope: stored.scope, exp: stored.exp };
  }
  const verified = await jwtVerify(token, createLocalJWKSet({ keys }), {
    issuer: provider.issuer,
    typ: "at+jwt",
    requiredClaims: ["sub", "exp"],
  }).catch(() => refuse("subject_token is not valid"));
  return verified.payload;
}

function targetOf({ resource, audience }, resources) {
  const wanted = new Set([resource, audience].flat().filter((name) => name !== undefined));
  const [identifier] = wanted;
  if (wanted.size !== 1 || !resources.has(identifier)) throw new errors.InvalidTarget();
  return { identifier, ...resources.get(identifier) };
}

function scopeOf(requested, subject, target) {
  const known = new Set(target.scope.split(" "));
  if (requested === undefined) {
    const held = (subject.scope ?? "").split(" ");
    return held.filter((scope) => known.has(scope)).join(" ");
  }
  for (const scope of requested.split(" ")) {
    if (!known.has(scope)) throw new errors.InvalidScope("the target has no such scope", scope);
  }
  return requested;
}

/** `resources`: identifier → what getResourceServerInfo answers. `publicKeys` (JWK) verify the server's own tokens. */
export function registerTokenExchange(provider, { resources, publicKeys }) {
  async function exchange(ctx) {
    const { params, client } = ctx.oidc;
    checkTypes(params);
    const subject = await subjectOf(provider, params.subject_token, publicKeys);
    const target = targetOf(params, resources);
    const token = new provider.AccessToken({
      accountId: subject.sub,
      client,
      gty: "token_exchange",
      scope: scopeOf(params.scope, subject, target) || undefined,
      expiresIn: Math.min(target.accessTokenTTL, subject.exp - Math.floor(Date.now() / 1000)),
    });
    token.resourceServer = new provider.ResourceServer(target.identifier, target);
    ctx.oidc.entity("AccessToken", token);
    ctx.body = {
      access_token: await token.save(),
      issued_token_type: ACCESS_TOKEN,
      token_type: token.tokenType,
      expires_in: token.expiration,
      scope: token.scope,
    };
  }
  provider.registerGrantType(TOKEN_EXCHANGE, exchange, PARAMETERS, ["resource", "audience"]);
}
