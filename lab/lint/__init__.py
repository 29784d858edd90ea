"""``make lint-deploy``: what hadolint and checkov say of deploy/."""
