"""What a knob does, measured: ``python -m lab.tuning`` writes the table of docs/tuning.md."""
