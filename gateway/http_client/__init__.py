"""Send HTTP requests to services and issuers."""
