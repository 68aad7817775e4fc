"""What options and settings may be called, without what it takes to do them. Imports nothing."""

from __future__ import annotations

AUTO, OFF = "auto", "off"
ENGINES = ("torch", "cuda-graph", "numba")
DEVICES = ("cpu", "cuda")
PRECISIONS = ("fp32", "bf16", "int8", "w8a8")  # of the matrices; the last two are the numba engine's
KEPT = ("placeholders", "tags", "urls", "emails", "numbers")  # spans.grammar.CLASSES
KEPT_OF_DOCUMENTS = KEPT[:-1]  # unless the user says otherwise: what programs and browsers read
KEPT_BY_SERVER = ("placeholders", "tags", "urls")  # the default of `serve`, whose clients are often programs
