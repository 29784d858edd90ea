"""Serve HTTP/1.1 to clients. It knows nothing of MCP, of limits or of callers."""
