"""Build one fronted service, which is one protected resource, from its settings."""
