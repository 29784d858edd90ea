"""``make reach``: real services, each in front of a gateway that knows no more of it than its URL."""
