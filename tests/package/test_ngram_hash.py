"""The hash of n-grams: computed by hand, and equal in Python, compiled code and tensors."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference import hash_row

from bytenmt import compiled_hashes, ngram_hash
from bytenmt.compiled_hashes import fold_case
from bytenmt.layers.ngram_tables import NgramTables
from bytenmt.ngram_hash import N_BYTES
from bytenmt.utf8 import BOS

MODULUS = 2**64


def word_of(text: bytes) -> int:
    """Return the word of a text: its last 8 bytes, the newest lowest, after BOS where missing."""
    return int.from_bytes((bytes([BOS] * 8) + text)[-8:], "big")


def hash_ngram(word: int, n: int) -> int:
    """Return the hash of the last n bytes of a text, n from 1 to 8, from 0 to 2 ** 64 - 1."""
    return hash_row(word % 256**n, n, MODULUS)


# By Python's integers from the formula in ngram_hash.py, each text's own length as n.
GOLDEN = [
    (b"ab", 0x0665048BDFD4E9AF),
    (b"Ab", 0x3469346D8D5FF5CC),
    (b"\xfe\xfe", 0x156501C1FF3E2612),
    (b"the", 0xA41E024EE7998214),
    (b"\xea\xb0\x80", 0x4553C6E10400E127),
    (b"would", 0x4AE95F0C5C30597F),
    (b"letters", 0x1339B8ABF8F42A50),
    (b"\xff\xff\xff\xff\xff\xff\xff\xff", 0xAA2FC046FEDF10E0),
]


@pytest.mark.parametrize(("text", "value"), GOLDEN)
def test_golden_values(text: bytes, value: int) -> None:
    """Whatever stands before the n bytes."""
    assert hash_ngram(word_of(text), len(text)) == value
    assert hash_ngram(word_of(b"before, " + text), len(text)) == value
    assert int(compiled_hashes.hash_ngram(np.uint64(word_of(b"." + text)), len(text))) == value


@given(st.binary(min_size=8, max_size=8))
def test_only_ascii_capitals_become_small_letters(text: bytes) -> None:
    """Folding equals bytes.lower of Python, which changes ASCII only."""
    assert int(fold_case(np.uint64(word_of(text)))) == word_of(text.lower())


@given(
    st.binary(min_size=1, max_size=12), st.binary(max_size=12), st.integers(3, 20), st.booleans()
)
def test_tensors_find_rows_of_the_hash(read: bytes, before: bytes, bits: int, folded: bool) -> None:
    """Rows are the highest bits of the hash of each order, one table after the other. That holds at
    any position and for any split of the text."""
    tables = NgramTables(1, (2, 3, 5, 8), 1 << bits, fold_case=folded)
    recent = (as_row(bytes([BOS]) * N_BYTES + before)[:, -N_BYTES:],)
    rows = tables.row_numbers(as_row(read), recent)
    assert rows.shape == (1, len(read), 4)
    for i in range(len(read)):
        text = before + read[: i + 1]
        word = word_of(text.lower() if folded else text)
        for table, n in enumerate((2, 3, 5, 8)):
            assert rows[0, i, table] == (table << bits) + (hash_ngram(word, n) >> (64 - bits))


@given(st.binary(max_size=20), st.integers(0, 20))
def test_words_are_hashed_from_their_beginnings(text: bytes, cut: int) -> None:
    """A loop over the bytes gives the same, wherever the text is cut; a table has the high bits."""
    tables = NgramTables(1, (2,), 8, n_word_rows=64)
    expected = []
    prefix = 0
    for byte in text.lower():
        in_word = bytes([byte]).isalnum() or 0x80 <= byte <= 0xF4
        prefix = (prefix * ngram_hash.PER_BYTE + byte + 1) % (1 << 64) if in_word else 0
        expected.append(8 + (hash_row(prefix, 9, MODULUS) >> 58))
    before = tables.start(1, torch.device("cpu"))
    found = []
    for part in (text[:cut], text[cut:]):
        if part:
            found += tables.row_numbers(as_row(part), before)[0, :, 1].tolist()
            before = (before[0], tables.prefix_hashes(as_row(part), before[1])[:, -1])
    assert found == expected


def test_long_texts_are_hashed_in_parts() -> None:
    """As in one go, and by powers that stay where they are, as a captured CUDA graph needs them."""
    text = as_row(bytes(range(256)) * 5)
    before = torch.tensor([7])
    tables = NgramTables(1, (2,), 8, n_word_rows=64)
    addresses = tables.powers.data_ptr(), tables.inverses.data_ptr()
    whole = tables.prefix_hashes(text, before)
    one_by_one = []
    last = before
    for k in range(text.shape[1]):
        last = tables.prefix_hashes(text[:, k : k + 1], last)[:, -1]
        one_by_one.append(last)
    assert torch.equal(whole, torch.stack(one_by_one, dim=1))
    assert (tables.powers.data_ptr(), tables.inverses.data_ptr()) == addresses
    assert not {"powers", "inverses"} & tables.state_dict().keys()


def as_row(text: bytes) -> torch.Tensor:
    return torch.tensor([list(text)], dtype=torch.uint8)
