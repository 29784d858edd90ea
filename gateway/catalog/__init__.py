"""From what a backend lists to what we offer: Method → Tool → Catalog, and which catalog is current."""
