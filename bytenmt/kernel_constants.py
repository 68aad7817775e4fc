"""Define constants that compiled kernels share with the rest of the package. Imports nothing.

Whatever a kernel's file imports is part of its cache key: a change anywhere in it compiles the
kernel again. So a constant that kernels need stands here, and the modules that it belongs to import
it, too.
"""

from __future__ import annotations

PRECISIONS = ("fp32", "int8")  # of the matrices of the CPU engine
# The bytes that stand for kept spans, see sentinels.py.
FIRST_SENTINEL = 0xF5
N_SENTINELS = 8
# Outputs of a weight matrix that the packed format stores together, as BLAS libraries do.
PANEL = 64
# In k of Op.NGRAMS, the first bit of the bits of a row's number in the table of words.
WORD_BITS = 8
FOLD_CASE = 64  # in k of Op.NGRAMS, beside the bits of a row's number: hash A to Z as a to z

# Search. A beam search goes on while its best open text would win if it grew to so many times its
# bytes at no loss. With 1, three lines in 500 of a middling model ended below greedy search; with
# no bound but the length limit the search took a third more steps.
LOOK_AHEAD = 2
