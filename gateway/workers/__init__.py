"""Several processes that serve one port: what the parent and its workers tell each other, and the parent itself."""
