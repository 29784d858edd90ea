// The reference OpenRPC server (npm @open-rpc/server-js) with a small pet shop.
//
// Two habits of this server matter to a caller and are left as they are:
//   - a request without "params" for a method that declares a parameter ends the process;
//   - `forget_pet` returns nothing, so its answer has neither "result" nor "error".
//
// Usage: node openrpc_server.mjs --port N      (JSON-RPC on every path of http://127.0.0.1:N)
//   --pem FILE         speaks https with the key and the certificates in FILE
//   --clients-ca FILE  and wants a client certificate by the authority in FILE

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { parseArgs } from "node:util";

// The packages are installed beside the lock file, not beside this program.
const require = createRequire(new URL("../node/package.json", import.meta.url));
const { JSONRPCError, Server, transports } = require("@open-rpc/server-js");
const { parseOpenRPCDocument } = require("@open-rpc/schema-utils-js");

const pet = { $ref: "#/components/schemas/Pet" };
const pets = { $ref: "#/components/schemas/Pets" };
const petId = { name: "petId", required: true, description: "The id of the pet", schema: { type: "integer" } };

const document = {
  openrpc: "1.2.6",
  info: { version: "1.0.0", title: "Pet shop", license: { name: "MIT" } },
  // Where nobody listens: a caller that trusts servers[] fails here.
  servers: [{ url: "http://localhost:8080" }],
  methods: [
    {
      name: "list_pets",
      summary: "List all pets",
      paramStructure: "by-name",
      tags: [{ name: "pets" }],
      params: [
        {
          name: "limit",
          description: "How many pets to return at most",
          required: false,
          schema: { type: "integer", minimum: 1 },
        },
      ],
      result: { name: "pets", description: "A page of pets", schema: pets },
      examples: [
        {
          name: "oneDog",
          params: [{ name: "limit", value: 1 }],
          result: { name: "oneDogResult", value: [{ id: 1, name: "rex", tag: "dog" }] },
        },
      ],
    },
    {
      name: "create_pet",
      summary: "Create a pet",
      paramStructure: "by-name",
      tags: [{ name: "pets" }],
      params: [
        { name: "newPetName", required: true, description: "Name of the pet", schema: { type: "string" } },
        { name: "newPetTag", required: false, description: "Tag of the pet", schema: { type: "string" } },
      ],
      result: { name: "petId", description: "The id of the new pet", schema: { type: "integer" } },
    },
    {
      name: "get_pet",
      summary: "Info for one pet",
      paramStructure: "by-position",
      tags: [{ name: "pets" }],
      params: [petId],
      result: { name: "pet", description: "The pet", schema: pet },
      errors: [{ code: 404, message: "No such pet" }],
    },
    {
      name: "forget_pet",
      summary: "Forget a pet; answers nothing at all",
      paramStructure: "by-name",
      tags: [{ name: "pets" }],
      params: [petId],
      result: { name: "nothing", schema: { type: "null" } },
    },
  ],
  components: {
    schemas: {
      Pet: {
        type: "object",
        required: ["id", "name"],
        properties: { id: { type: "integer" }, name: { type: "string" }, tag: { type: "string" } },
      },
      Pets: { type: "array", items: pet },
    },
  },
};

const shop = new Map([
  [1, { id: 1, name: "rex", tag: "dog" }],
  [2, { id: 2, name: "tom" }],
]);
let lastId = 2;

const methods = {
  list_pets: async (limit) => [...shop.values()].slice(0, limit),
  create_pet: async (name, tag) => {
    lastId += 1;
    shop.set(lastId, tag === undefined ? { id: lastId, name } : { id: lastId, name, tag });
    return lastId;
  },
  get_pet: async (id) => {
    if (!shop.has(id)) throw new JSONRPCError("No such pet", 404, { petId: id });
    return shop.get(id);
  },
  forget_pet: async (id) => {
    shop.delete(id);
  },
};

// The transport's own start() listens on every interface.
const onLoopback = (Transport) =>
  class extends Transport {
    start() {
      return new Promise((resolve, reject) => {
        this.server.once("error", reject).listen(this.options.port, "127.0.0.1", resolve);
      });
    }
  };

const transportOf = ({ port, pem, "clients-ca": clientsCa }) => {
  const plain = { port: Number(port), middleware: [] };
  if (pem === undefined) return new (onLoopback(transports.HTTPTransport))(plain);
  const shown = readFileSync(pem);
  const wanted = clientsCa && { ca: readFileSync(clientsCa), requestCert: true, rejectUnauthorized: true };
  return new (onLoopback(transports.HTTPSTransport))({ ...plain, key: shown, cert: shown, ...wanted });
};

const text = { type: "string" };
const { values: options } = parseArgs({ options: { port: text, pem: text, "clients-ca": text } });
// dereference: false keeps the $refs in the listing, as services with large documents do.
const server = new Server({
  openrpcDocument: await parseOpenRPCDocument(document, { dereference: false }),
  methodMapping: methods,
});
server.addTransport(transportOf(options));
await server.start();
