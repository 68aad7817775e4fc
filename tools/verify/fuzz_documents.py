"""Mutate documents of every format for the fuzzer; read, translate and read them again."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from bytenmt.decoding.confidence import UNSURE
from bytenmt.decoding.interface import Hypothesis
from bytenmt.documents.document import Document
from bytenmt.documents.formats import FORMATS, ReadOptions, read
from bytenmt.documents.segments import Segment
from bytenmt.documents.translation import TranslateSegments, translate
from bytenmt.errors import DataError
from tools.verify.fuzz_tensors import mutate_bytes
from tools.verify.growth import PIECES
from tools.verify.sample_documents import SAMPLES, WORD_PARTS, Sample, translate_to_upper_case, word_archive

SEEDS = list(SAMPLES.values())
MAX_BYTES = 100_000  # of a document
ENCODINGS = [
    *("utf-8", "utf-16", "utf-16-le", "utf-32-be", "latin-1", "shift_jis", "cp1252", "koi8-r", "utf-7"),
    *("idna", "punycode", "undefined", "rot13", "base64", "x" * 300, "\0", ""),
]
LANGUAGES = [
    ("en", "de"),
    ("en-US", "de_AT"),
    ("de", "en"),
    ("", ""),
    ("en", 'a"b<c>&\n'),
    ("x" * 500, "\u202e"),
]
COLUMNS = [None, "1", "2", "99", "0", "-1", "text", "9" * 400, "\u0663", ""]
SEGMENT_BYTES = (16, 100, 1000)


def mutate_document(chance: random.Random) -> Sample:
    """Return a sample document with one to four mutations, and options to read it with."""
    sample = chance.choice(SEEDS)
    data = sample.data
    part = chance.choice(list(WORD_PARTS))
    is_part = sample.name == "docx" and chance.random() < 0.7  # else the archive itself
    data = WORD_PARTS[part].encode() if is_part else data
    for _ in range(chance.choice([1, 1, 2, 4])):
        data = chance.choice(CHANGES)(data, chance)[:MAX_BYTES]
    if is_part:
        data = word_archive({**WORD_PARTS, part: data})
    name, options = sample.name, sample.options
    if chance.random() < 0.1:
        name = chance.choice(list(FORMATS))
    if chance.random() < 0.2:
        options = ReadOptions(
            pair=chance.choice([None, *LANGUAGES]),
            column=chance.choice(COLUMNS),
            into=chance.choice(COLUMNS),
            encoding=chance.choice([None, None, *ENCODINGS]),
            strict=chance.random() < 0.3,
        )
    return Sample(name, data, options)


def read_and_translate(sample: Sample, chance: random.Random) -> tuple[str, str]:
    """Read a document, translate it, and read the result. Return kind and message of the outcome.

    Raises BytenmtError for a document that is refused.
    """
    document = _read(sample)
    if document.with_units([None] * len(document.units)) != sample.data:
        return "changed", f"{sample.name}: a document without translations is not its own bytes"
    written, _ = translate(
        document,
        _translator(chance),
        limit=chance.choice(SEGMENT_BYTES),
        overwrite=chance.random() < 0.5,
    )
    try:
        _read(sample._replace(data=written))
    except DataError as error:
        return "malformed", f"{sample.name}: what was written cannot be read: {error}"
    return "output", ""


def _read(sample: Sample) -> Document:
    return read(sample.data, sample.name, Path("document"), sample.options)


def _translator(chance: random.Random) -> TranslateSegments:
    """Return a stand-in translator that copies, loses tags, returns nothing, or writes format syntax."""
    hostile = chance.choice(PIECES) * chance.choice([1, 1, 3, 200])
    ways: list[Callable[[Segment], bytes]] = [
        translate_to_upper_case,
        lambda segment: segment.text,
        lambda segment: b"",
        lambda segment: b" ".join(reversed(segment.keep)) or b"a",
        lambda segment: hostile.encode(),
        lambda segment: segment.text + hostile.encode() + segment.text,
    ]
    way = chance.choice(ways)

    def ask(segments: Sequence[Segment]) -> list[Hypothesis]:
        flags = chance.choice([(), (UNSURE,)])
        return [Hypothesis(_as_line(way(segment)), 0.0, 0.0, flags=flags) for segment in segments]

    return ask


def _as_line(text: bytes) -> bytes:
    """Return text as a translator returns it: one line of valid UTF-8."""
    return text.replace(b"\n", b" ").replace(b"\r", b" ")


def _insert_piece(data: bytes, chance: random.Random) -> bytes:
    """Insert a piece of some format's syntax, once or many times."""
    at = chance.randint(0, len(data))
    return data[:at] + chance.choice(PIECES).encode() * chance.choice([1, 1, 1, 2, 50, 2000]) + data[at:]


def _repeat_slice(data: bytes, chance: random.Random) -> bytes:
    """Repeat a slice of the document."""
    begin = chance.randint(0, len(data))
    end = begin + chance.choice([1, 5, 30, 300])
    return data[:end] + data[begin:end] * chance.choice([1, 2, 30, 300]) + data[end:]


def _splice(data: bytes, chance: random.Random) -> bytes:
    """Insert a slice of another sample."""
    other = chance.choice(SEEDS).data
    begin, at = chance.randint(0, len(other)), chance.randint(0, len(data))
    return data[:at] + other[begin : begin + chance.choice([10, 100, 1000])] + data[at:]


def _re_encode(data: bytes, chance: random.Random) -> bytes:
    """Encode the document in another encoding."""
    encoding = chance.choice(ENCODINGS[:9])
    return data.decode("utf-8", "replace").encode(encoding, "replace")


def _enlarge_number(data: bytes, chance: random.Random) -> bytes:
    """Replace a digit by a huge or invalid number."""
    digits = [at for at, byte in enumerate(data[:5000]) if chr(byte).isdigit()]
    if not digits:
        return data
    at = chance.choice(digits)
    return data[:at] + chance.choice([b"9" * 20, b"9" * 6000, b"-1", b"0", b"1e999"]) + data[at + 1 :]


def _cut(data: bytes, chance: random.Random) -> bytes:
    """Delete a slice, or everything after a position."""
    begin, end = sorted(chance.randint(0, len(data)) for _ in range(2))
    return data[:begin] + data[end:] if chance.random() < 0.5 else data[:end]


CHANGES: list[Callable[[bytes, random.Random], bytes]] = [
    mutate_bytes,
    mutate_bytes,
    _insert_piece,
    _insert_piece,
    _repeat_slice,
    _splice,
    _re_encode,
    _enlarge_number,
    _cut,
]
