"""The legacy service: one JSON-RPC 2.0 endpoint over HTTP."""
