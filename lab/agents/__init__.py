"""How well an agent can work with a listing, measured without a model: `make agents`; docs/agents.md explains it."""
