"""The official MCP clients, driven against a running gateway: a table of clients, eras and capabilities.

``python -m lab.clients`` prints it. :mod:`environments` installs the clients, ``drivers`` has a small program for
each client library, :mod:`world` the gateways and the backends that they meet, and :mod:`matrix` the table's rows.
"""
