"""The client of the backend: JSON-RPC calls over HTTP, and the questions about its listing."""
