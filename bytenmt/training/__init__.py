"""A run from its files to its end.

Takes pairs of files and a Config, and gives a run folder with the weights of the best and the last update.
Stopped and resumed, in any number of processes, a run has the same bits (tests/training/test_run.py).
Imports data, architectures, decoding and evaluation for validation. Budget: 2,000 lines.
"""
