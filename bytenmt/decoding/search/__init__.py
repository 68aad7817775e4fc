"""The search of all engines: it takes log-probabilities of next bytes and chooses bytes, until a
sentence is done.

Plain Python over NumPy arrays, compiled by Numba; its results are those of a search in plain lists
(tests/decoding/test_search.py). Imports leaf modules, all in the key of kernels.
"""
