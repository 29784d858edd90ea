"""Hold what each request was and came to, and write it to the log and the metrics."""
