"""Find out what is wrong, with a listing, a token or a store, for `check` and for /status."""
