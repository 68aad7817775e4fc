"""Scores and flags of translations, likelihood of texts; comparisons and figures.

Takes texts, corpora and runs, and gives numbers: chrF and BLEU of sacreBLEU, bits of a byte, flags
(tests/evaluation/test_scores.py, tests/evaluation/test_judge.py). Imports decoding.
"""
