"""A tool call from look-up to outcome: the only place that runs calls, asks clients for input and for consent."""
