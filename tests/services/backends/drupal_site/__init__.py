"""A Drupal site as its JSON-RPC callers see it, in memory. `drupal.py` beside this package serves it.

php      JSON as PHP writes it
people   who calls, and what each may do
methods  what the site can do, and how it says so (German included)
schema   the messages of PHP's schema validator
calls    /jsonrpc: the envelope, parameters, ids and errors
listing  /jsonrpc/methods, in the shapes of three major versions
tools    /mcp/tools of the module jsonrpc_mcp
pages    everything that is not JSON-RPC: HTML and `_format=json` errors
"""
