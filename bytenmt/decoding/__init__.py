"""Requests in, hypotheses out; given texts in, what each byte costs and is aligned with out.

Takes lines or requests (interface.Request) and gives hypotheses (interface.Hypothesis), by engines
(subclasses of engine.Engine). The output of a sentence does not depend on the others, and all
engines give the same text (tests/decoding/test_engines.py). Imports checkpoints and data; PyTorch
only in engines that need it (tests/test_imports.py).
"""
