"""First contact: what `check` says of a URL that does not lead to a service that it can list."""
