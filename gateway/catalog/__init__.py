"""Turn what a backend lists into what we offer: Method → Tool → Catalog."""
