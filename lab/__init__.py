"""The programs that measure the gateway: ``make bench``, ``make fault``, ``make soak`` and others.

``make test`` runs their tests, and not the programs.
"""
