// A service written with libjson-rpc-cpp on a Unix socket, whose server takes one message for each connection.
//
// Usage: one_call SOCKET
#include <jsonrpccpp/server.h>
#include <jsonrpccpp/server/connectors/unixdomainsocketserver.h>
#include <unistd.h>

static const char *LISTING = R"({"openrpc": "1.2.6", "info": {"title": "Sums", "version": "1"}, "methods": [
  {"name": "add", "paramStructure": "by-name", "params": [
    {"name": "a", "required": true, "schema": {"type": "integer"}},
    {"name": "b", "required": true, "schema": {"type": "integer"}}],
   "result": {"name": "sum", "schema": {"type": "integer"}}}]})";

class Sums : public jsonrpc::AbstractServer<Sums> {
 public:
  explicit Sums(jsonrpc::AbstractServerConnector &connector)
      : jsonrpc::AbstractServer<Sums>(connector, jsonrpc::JSONRPC_SERVER_V2) {
    using namespace jsonrpc;
    bindAndAddMethod(Procedure("add", PARAMS_BY_NAME, JSON_INTEGER, "a", JSON_INTEGER, "b", JSON_INTEGER, NULL),
                     &Sums::add);
    bindAndAddMethod(Procedure("rpc.discover", PARAMS_BY_NAME, JSON_OBJECT, NULL), &Sums::discover);
  }

  void add(const Json::Value &request, Json::Value &response) {
    response = request["a"].asInt() + request["b"].asInt();
  }

  void discover(const Json::Value &, Json::Value &response) { Json::Reader().parse(LISTING, response); }
};

int main(int, char **arguments) {
  jsonrpc::UnixDomainSocketServer connector(arguments[1]);
  Sums server(connector);
  if (!server.StartListening()) return 1;
  while (true) pause();
}
