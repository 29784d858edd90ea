"""The official MCP conformance suites against the gateway, with a plain JSON-RPC service behind it.

``python -m lab.conformance`` runs them and prints a table; ``tests/install.sh`` installs them.
"""
