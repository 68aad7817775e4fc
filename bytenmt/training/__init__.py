"""A run from its files to its end.

Takes pairs of files and a Config, and gives a run folder with the weights of the best and the last
update. Stopped and resumed, in any number of processes, a run has the same bits
(tests/training/test_resume.py). Imports data, architectures, decoding and evaluation for
validation.

Read run.py first (a run), then loop.py (its loop), then trainer.py (one update, and its
checkpoint), then translation.py or language_model.py (batches, their gradients, and validation).
"""
