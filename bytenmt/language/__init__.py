"""Byte language models: bits of every byte, baselines and generation.

>>> from pathlib import Path
>>> from bytenmt.decoding.interface import EngineSpec
>>> from bytenmt.decoding.loading import load_runs
>>> from bytenmt.language.generate import generate
>>> from bytenmt.language.surprisal import PredictionSummary, stream_surprisal
>>> runtime = load_runs([Path("runs/text")], EngineSpec(precision="fp32"))
>>> summary = PredictionSummary()
>>> for surprise in stream_surprisal(runtime.make_scorer(), [b"a te", b"xt"]):
...     summary.add(surprise)
>>> list(summary.lines())[1]
'bytes: 6'
>>> b"".join(generate(runtime, b"a te", 9, seed=1)).startswith(b"a te")
True

Takes texts in pieces of any size and gives a Surprisal for each: bytes and their bits, which do not
depend on the pieces (tests/language/test_surprisal.py). Imports scorers of the decoding.
"""
