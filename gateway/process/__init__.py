"""Run the process: ports, the table of services, reload, signals, workers."""
