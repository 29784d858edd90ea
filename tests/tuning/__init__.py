"""What a knob does, measured: ``python -m tests.tuning`` writes the table of docs/tuning.md."""
