"""A reverse-proxy gateway that makes an existing JSON-RPC 2.0 service speak the Model Context Protocol."""

__version__ = "0.1.0"
