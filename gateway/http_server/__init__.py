"""Serve HTTP/1.1 to clients: our own server on asyncio and httptools. It knows nothing of MCP, of callers or of tools.

What it implements:

- RFC 9112: messages, chunked bodies (§7), persistent connections, pipelining and their end (§9), request smuggling
  (§11.2); RFC 9110: HEAD (§9.3.2), 100 Continue (§10.1.1), trailers (§6.5), upgrades that are declined (§7.8).
- No TLS, HTTP/2, compression or static files: a proxy in front has those.

What it bounds, for the whole port or for each client:

- connections, and the share of one network (``connection_limit.py``); what is refused is logged (``refusal_log.py``)
- the size of a head, of a line, and the number of headers (``request_reader.py``)
- the time to send a head, to read a response, and to stay idle (``slow_clients.py``, ``connection.py``)
- bytes that are sent ahead of responses, and the connections that are read in one turn (``handler.py``)
- bytes in memory of bodies and responses, and the share of one caller (``held_bytes.py``)

The interface. It is imported from these files, so that no command loads what it does not need:

- ``accepting.py``: :func:`listen` opens a :class:`Port` for a handler, within :class:`Bounds`
- ``handler.py``: :class:`Handler`, which returns a response for each request
- ``request.py``: :class:`HttpRequest`, and what it needs of its :class:`ClientConnection`
- ``response.py``: :class:`Response` and :class:`StreamedResponse`; the connection sends both
- ``connection_limit.py``: :class:`ConnectionLimit`; ``held_bytes.py``: :class:`HeldBytes`

The order of the files, each of which imports only from those after it: accepting, connection_limit, connection,
handler, response, request_reader, request, slow_clients, held_bytes, refusal_log.
"""
