"""The container image: locked, built twice, looked into, and run."""
