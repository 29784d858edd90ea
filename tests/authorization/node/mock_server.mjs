// An authorization server that signs what it is told: npm oauth2-mock-server behind a door (door.mjs).
//
// Usage: node mock_server.mjs '{"port": N, "controlPort": N, "parent": PID}'
//
// Commands, besides the door's:
//   PUT  /keys [2, 1]   publishes these generations of keys and signs with the first
//   POST /mint          {header, payload, without, kid, key} → {token}: the server's usual header and claims (typ JWT;
//                       iss, iat, nbf, exp), with those of `header` and `payload` over them, without the claims named
//                       in `without`; signed by the published key `kid`, or by `key`, a private JWK that stays
//                       unpublished. The library takes the header's alg from the key.

import { OAuth2Issuer, OAuth2Service } from "oauth2-mock-server";

import { open } from "./door.mjs";
import { keysOf } from "./keys.mjs";

const options = JSON.parse(process.argv[2]);

async function issuerWith(keys) {
  const issuer = new OAuth2Issuer();
  issuer.url = `http://127.0.0.1:${options.port}`;
  for (const key of keys) await issuer.keys.add(key);
  return issuer;
}

let service;
let signing;

// Keys cannot be taken from the library's issuer, so that other keys are another issuer.
async function serve(generations) {
  const keys = await keysOf(generations);
  service = new OAuth2Service(await issuerWith(keys));
  signing = keys[0].kid;
}

async function mint({ header = {}, payload = {}, without = [], kid, key }) {
  const issuer = key === undefined ? service.issuer : await issuerWith([key]);
  const token = await issuer.buildToken({
    kid: key === undefined ? (kid ?? signing) : key.kid,
    scopesOrTransform: (usualHeader, claims) => {
      Object.assign(usualHeader, header);
      Object.assign(claims, payload);
      for (const name of without) delete claims[name];
    },
  });
  return { token };
}

await serve([1]);
await open({
  ...options,
  handle: (request, response) => service.requestHandler(request, response),
  commands: { "PUT /keys": serve, "POST /mint": mint },
});
