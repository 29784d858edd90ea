"""A call from look-up to outcome: the only door; questions to the client and consent."""
