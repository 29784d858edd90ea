"""``make deploy-test``: the overlay for twelve services, run as processes from what kustomize renders."""
