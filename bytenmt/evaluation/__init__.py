"""Scores and flags of translations, likelihood of texts; comparisons and figures.

>>> from pathlib import Path
>>> from bytenmt.data.corpus import ParallelCorpus
>>> from bytenmt.data.text_file import TextFile
>>> from bytenmt.decoding.interface import EngineSpec
>>> from bytenmt.decoding.loading import load_runs
>>> from bytenmt.evaluation.likelihood import bits_per_byte, log_probabilities
>>> from bytenmt.evaluation.scores import text_scores
>>> scores = text_scores(["zwei Hunde"], ["zwei Hunde"])
>>> round(scores.chrf), scores.exact_match
(100, 100.0)
>>> corpus = ParallelCorpus.from_texts(TextFile.open("src"), TextFile.open("tgt"))
>>> scorer = load_runs([Path("runs/mine")], EngineSpec(precision="fp32")).make_scorer()
>>> bits_per_byte(log_probabilities(scorer, corpus), corpus.target_lengths) > 0
True

Takes texts, corpora and runs, and gives numbers: chrF and BLEU of sacreBLEU, bits of a byte, flags
(tests/evaluation/test_scores.py, tests/evaluation/test_judge.py). Imports translation and decoding.
"""
