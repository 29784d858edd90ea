"""Breaks the gateway in one place after the other, and asks whether a test notices: `make mutate`."""
