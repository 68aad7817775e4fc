"""Text files to batches: files are opened as TextFile, paired in a ParallelCorpus, planned and
assembled.

Takes paths (PairFiles) and gives batches of NumPy arrays (Batch), or windows of texts
(WindowBatch). Every kept pair is in an epoch as often as its weight says, in batches within the
budget, which depend on the lengths, the seed and the epoch alone (tests/data/test_epoch_plan.py).
Imports neither PyTorch nor anything that decodes or trains.
"""
