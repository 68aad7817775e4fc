"""Decode requests into hypotheses, and score fixed texts: log-probability and rank of every byte.

Takes requests (interface.Request) and gives hypotheses (interface.Hypothesis), by engines
(subclasses of engine.Engine). The output of a sentence does not depend on the others, and all
engines give the same text (tests/decoding/test_engines.py). Imports checkpoints; PyTorch
only in engines that need it (tests/package/test_imports.py).
"""
