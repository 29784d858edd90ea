"""Who does the same work as the gateway, or less: each in its fairest set-up, in an environment of its own."""
