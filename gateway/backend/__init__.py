"""Send JSON-RPC calls to the backend over HTTP, and ask it for its listing."""
