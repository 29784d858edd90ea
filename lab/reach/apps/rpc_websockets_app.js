// A service written with rpc-websockets: node rpc_websockets_app.js PORT FOLDER-OF-NODE_MODULES
const [, , port, modules] = process.argv;
const { Server } = require(`${modules}/rpc-websockets`);

const server = new Server({ port: Number(port), host: "127.0.0.1" });
server.register("seats_book", ({ row, seat }) => `${row}${seat}`);
server.register("seats_free", ([...rows]) => rows.length * 7);
server.event("booked"); // and tell it to nobody
