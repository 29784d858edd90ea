"""The command ``make conformance``."""
