"""HTTP in and out: paths, headers, bodies and statuses. Lower folders decide everything about the protocol."""
