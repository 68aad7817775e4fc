"""The n-gram beside the figures: a proper distribution, equal to its definition written in
dictionaries."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest

from bytenmt.language.ngram import NGram

TEXT = b"the cat sat on the mat; the cats sat on that mat.\n" * 3
TEXT += bytes(range(250, 256)) + "가나다".encode()


def array(text: bytes) -> np.ndarray:
    return np.frombuffer(text, np.uint8)


def naive(texts: list[bytes], order: int, context: bytes, byte: int) -> float:
    """p(byte | the last `order` bytes of context), from tables of whole contexts."""
    counts = [Counter[tuple[bytes, int]]() for _ in range(order + 1)]
    for text in texts:
        padded = bytes(order) + text
        for end in range(order, len(padded)):
            for k in range(order + 1):
                counts[k][padded[end - k : end], padded[end]] += 1
    for k in range(order - 1, -1, -1):  # how many different bytes stood before
        counts[k] = Counter((longer[1:], b) for longer, b in counts[k + 1])
    p = 1 / 256
    for k in range(order + 1):
        before = context[len(context) - k :]
        followers = {b: c for (seen, b), c in counts[k].items() if seen == before}
        if not followers:
            continue
        of = defaultdict(int, Counter(counts[k].values()))
        share = of[1] / max(1, of[1] + 2 * of[2])
        discount = {0: 0.0}
        for c in (1, 2, 3):
            guess = c - share * (c + 1) * of[c + 1] / max(1, of[c])
            discount[c] = min(max(guess, 0.1), c - 0.1)
        taken = {b: discount[min(c, 3)] for b, c in followers.items()}
        own = followers.get(byte, 0) - taken.get(byte, 0.0)
        p = (own + sum(taken.values()) * p) / sum(followers.values())
    return p


def test_it_is_what_its_definition_says() -> None:
    """Two texts, every context length; the evaluated text has known and new contexts and bytes."""
    texts, order, told = [TEXT, b"a mat on a cat"], 3, b"\0\0the catty mat \xff\xfe on"
    model = NGram.from_texts([array(text) for text in texts], order)
    padded = bytes(order) + told
    expected = [
        -math.log2(naive(texts, order, padded[end - order : end], padded[end]))
        for end in range(order, len(padded))
    ]
    np.testing.assert_allclose(model.bits(array(told)), expected, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("text", [TEXT, b"a", bytes(range(256)) * 2, b"ab" * 50], ids=len)
def test_the_probabilities_of_all_bytes_sum_to_one(text: bytes) -> None:
    """After contexts that were seen, half seen and never seen; no byte is impossible."""
    model = NGram.from_texts([array(text)])
    for context in (text[:5].rjust(5, b"\0"), b"zz" + text[:3].rjust(3, b"\0"), b"\xc1" * 5):
        bits = [model.bits(array(bytes([b])), array(context))[0] for b in range(256)]
        assert math.isclose(sum(2.0**-b for b in bits), 1, rel_tol=1e-9)
        assert max(bits) < 64


def test_any_cut_of_a_stream_gives_the_same() -> None:
    model = NGram.from_texts([array(TEXT)])
    whole = model.bits(array(TEXT))
    for cut in (1, 3, 5, 60):
        after = model.bits(array(TEXT[cut:]), array(bytes(5) + TEXT[:cut])[-5:])
        assert np.array_equal(whole[cut:], after)


def test_texts_are_streams_of_their_own() -> None:
    apart = NGram.from_texts([array(b"aaaab"), array(b"caaaa")], 1)
    joined = NGram.from_texts([array(b"aaaabcaaaa")], 1)
    b_then_c = array(b"b"), array(b"c")
    assert joined.bits(b_then_c[1], b_then_c[0])[0] + 0.5 < apart.bits(b_then_c[1], b_then_c[0])[0]
