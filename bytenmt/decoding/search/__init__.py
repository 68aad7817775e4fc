"""The search of all engines: plain Python over NumPy arrays, which Numba compiles.

Takes log-probabilities of the next byte of every hypothesis and gives the bytes chosen, until a sentence is
done. Its results are those of a search in plain lists (tests/decoding/test_beam_search.py). Imports leaf
modules only, since its files are part of the key of compiled kernels. Budget: 1,000 lines.
"""
