"""The run folder: weights files, the state of a trainer, the log, quantisation.

Takes models, configurations and facts, and gives them back from files that are whole or not there.
A run that is stopped at any time and resumed has the same bits (tests/training/test_kill.py,
tests/checkpoints/test_checkpoint.py). Imports configurations and architectures.
"""
