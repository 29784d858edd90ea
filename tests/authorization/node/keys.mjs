// Signing keys in generations: the key of generation 2 for RS256 has the kid "RS256-2".

import { generateKeyPair } from "node:crypto";
import { promisify } from "node:util";

const generate = promisify(generateKeyPair);
const KINDS = {
  RS256: () => generate("rsa", { modulusLength: 2048 }),
  ES256: () => generate("ec", { namedCurve: "P-256" }),
};

const made = new Map();

async function make(alg, generation) {
  const { privateKey } = await KINDS[alg]();
  return { ...privateKey.export({ format: "jwk" }), kid: `${alg}-${generation}`, alg, use: "sig" };
}

/** The private keys (JWK) of the generations, in their order, made on first use. */
export function keysOf(generations) {
  const names = generations.flatMap((generation) => Object.keys(KINDS).map((alg) => [alg, generation]));
  return Promise.all(
    names.map(([alg, generation]) => {
      const name = `${alg}-${generation}`;
      if (!made.has(name)) made.set(name, make(alg, generation));
      return made.get(name);
    }),
  );
}

/** What of a private key (JWK) others may know. */
export function publicPart({ kty, n, e, crv, x, y, kid, alg, use }) {
  return { kty, n, e, crv, x, y, kid, alg, use };
}
