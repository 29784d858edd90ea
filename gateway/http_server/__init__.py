"""Serve HTTP/1.1 to clients on asyncio and httptools: nothing here knows MCP, callers or tools.

It implements RFC 9112: messages, chunked bodies (§7), persistent connections and pipelining (§9), request smuggling
(§11.2); RFC 9110: HEAD (§9.3.2), 100 Continue (§10.1.1), trailers (§6.5), declined upgrades (§7.8); TLS below it
(``tls.py``). No HTTP/2, compression or static files: a proxy in front has those. What is bounded, for a port or for
each client:

- connections, and the share of one network (``connection_limit.py``); ``refusal_log.py`` logs what is refused
- the size of a head, of a line, and the number of headers (``request_reader.py``)
- the time to send a head, to stay idle, and to read a response (``connection.py``, ``held_bytes.py``)
- bytes that are sent ahead of responses, and the connections that are read in one turn (``handler.py``)
- bytes in memory of bodies and responses, and the share of one caller (``held_bytes.py``)

The interface, imported from its files so that no command loads what it does not need: ``accepting.py`` (a
:class:`Port` serves a handler within :class:`Bounds`), ``handler.py``, ``request.py``, ``response.py``,
``connection_limit.py``, ``held_bytes.py``. Each file imports only from those after it: accepting, connection_limit,
tls, connection, handler, response, request_reader, request, held_bytes, refusal_log.
"""
