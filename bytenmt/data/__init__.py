"""Text files to batches: files are opened, paired in a corpus, planned and assembled.

>>> from pathlib import Path
>>> from bytenmt.data.batches import assemble
>>> from bytenmt.data.corpus import ParallelCorpus
>>> from bytenmt.data.epoch_plan import epoch_plan
>>> from bytenmt.data.pair_files import PairFiles
>>> corpus = ParallelCorpus.open_all([PairFiles(src=Path("src"), tgt=Path("tgt"))])
>>> len(corpus), corpus.source(1), corpus.target(1)  # the empty line is left out
(3, b'two dogs', b'zwei Hunde')
>>> plan = epoch_plan(corpus.source_lengths, corpus.target_lengths, 40, seed=1, epoch=0)
>>> batch = assemble(corpus, plan.batch(0))
>>> batch.source.shape[0] == len(plan.batch(0)) == len(batch.pairs())
True

Takes paths (PairFiles) and gives batches of NumPy arrays (Batch), or windows of texts
(WindowBatch). Every kept pair is in an epoch as often as its weight says, in batches within the
budget, which depend on the lengths, the seed and the epoch alone (tests/data/test_epoch_plan.py).
Imports neither PyTorch nor anything that decodes or trains.
"""
