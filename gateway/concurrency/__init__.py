"""Run things side by side: background jobs, single flight, shares of the event loop, counters of users."""
