"""Run the command line as ``python -m gateway``, for where ``jsonrpc-mcp-gateway`` is not on the path."""

from gateway.cli import COMMAND, main

if __name__ == "__main__":
    main(prog_name=COMMAND)
