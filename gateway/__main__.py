"""``python -m gateway``, which is ``jsonrpc-mcp-gateway`` where that is not on the path."""

from gateway.cli import COMMAND, main

if __name__ == "__main__":
    main(prog_name=COMMAND)
