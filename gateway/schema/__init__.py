"""Turn the JSON Schemas of a listing into self-contained 2020-12 of bounded cost, and check values against them."""
