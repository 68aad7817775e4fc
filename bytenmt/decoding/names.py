"""What options and settings may be called, without what it takes to do them."""

from __future__ import annotations

from bytenmt.kernel_constants import PRECISIONS as PRECISIONS

AUTO, OFF = "auto", "off"
ENGINES = ("torch", "cuda-graph", "numba")
DEVICES = ("cpu", "cuda")
KEPT = ("placeholders", "tags", "urls", "emails", "numbers")  # spans.grammar.CLASSES
KEPT_OF_DOCUMENTS = KEPT[:-1]  # unless the user says otherwise: what programs and browsers read
KEPT_BY_SERVER = ("placeholders", "tags", "urls")  # the default of `serve`, whose clients are often programs
