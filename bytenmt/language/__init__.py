"""Byte language models: bits of every byte, baselines and generation.

Takes texts in pieces of any size and gives a Surprisal for each: bytes and their bits, which do not
depend on the pieces (tests/language/test_surprisal.py). Imports scorers of the decoding.
"""
