"""The Model Context Protocol, without I/O: messages in, messages out, no HTTP library.

One file per era: :mod:`modern` is 2026-07-28, stateless, where each request carries its version; :mod:`legacy` is
2024-11-05 to 2025-11-25, where ``initialize`` negotiates one. :mod:`operations` knows no version.
"""
