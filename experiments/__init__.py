"""One thin script per table, figure or claim of the paper: `python -m experiments.NAME`."""
