"""Hash the last n bytes of a text, for n-gram embeddings.

The *word* of a text is its last eight bytes as one integer, the newest byte lowest. A text begins
as eight BOS bytes. With all arithmetic modulo 2 ** 64,

    key = the lowest n bytes of the word
    h = (key ^ (n * PER_ORDER)) * SPREAD;  h = (h ^ (h >> 32)) * MIX

and a table of 2 ** k rows takes the k highest bits of h. compiled_hashes.py has this for compiled
code, layers/ngram_tables.py for tensors.

The *prefix hash* of a text is a hash of the bytes since the last byte that is part of no word: an
ASCII letter or digit is, and so is every byte of a longer character (0x80 to 0xF4). With a byte b
of a word, A to Z taken as a to z, it becomes prefix * PER_BYTE + b + 1, with any other byte 0. A
table of words hashes it as the key of an n-gram of WORD_ORDER bytes.
"""

from __future__ import annotations

from bytenmt.utf8 import BOS

N_BYTES = 8  # bytes of a word, and of the longest n-gram
WORD = (1 << 64) - 1  # all bits of a word
PER_ORDER = 0xBF58476D1CE4E5B9
SPREAD = 0x9E3779B97F4A7C15
MIX = 0x94D049BB133111EB
PER_BYTE = 0xD6E8FEB86659FD93  # odd: its powers have inverses modulo 2 ** 64
WORD_ORDER = 9  # the order that stands for words, one above the longest n-gram's
LAST_OF_WORD = 0xF4  # the highest byte of UTF-8
START = int.from_bytes(bytes([BOS]) * N_BYTES, "big")  # the word of an empty text
