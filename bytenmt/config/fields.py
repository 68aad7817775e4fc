"""Describe a value once: its type with bounds, default and help.

Fields that are declared by `option` become options of commands and keyword arguments of the Python
interface; the sections of the configuration have their bounds from here as well. Imports
nothing heavy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from bytenmt.errors import ConfigError, SettingError, printable
from bytenmt.plugins import NEEDS_PLUGIN

MAX_COUNT = 10**9  # bytes, lines, updates: more than anybody has
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Positive = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
Fraction = Annotated[float, Meta(ge=0.0, le=1.0)]
Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]  # what TOML, NumPy and PyTorch all take
Beam = Annotated[int, Meta(ge=1, le=1000)]  # the work of a step grows with its square
LengthPenalty = Annotated[float, Meta(ge=0.0, le=10.0)]
MAX_THREADS = 256  # thousands are more than PyTorch can be given: OpenMP then ends the program
Threads = Annotated[int, Meta(ge=1, le=MAX_THREADS)]
Weight = Annotated[float, Meta(ge=0.001, le=1000.0)]  # of a corpus; with less an epoch is empty
Doubt = Annotated[float, Meta(ge=0.0, le=1e6)]  # a threshold
NBytes = Annotated[int, Meta(ge=0, le=10**7)]  # of a text that is sampled
Port = Annotated[int, Meta(ge=0, le=65535)]

WORDS = {"int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false"}
MAX_SHOWN_CHARS = 40  # characters of a value that messages show


class Option(NamedTuple):
    """A setting that is declared once and becomes a command's option and a keyword argument."""

    name: str
    kind: Any  # its type with bounds, as msgspec converts to it
    default: Any  # used where the option is not given
    help: str  # text for --help, which adds the default
    flags: tuple[str, ...] = ()  # names of the option; empty: `--name`
    metavar: str | None = None  # the value's name in --help
    choices: tuple[str, ...] = ()  # the allowed values of a text; empty: any
    heading: str = ""  # of --help, under which it is listed; empty: that of its dataclass
    group: str = ""  # "search", "sampling", "output" or "": by it commands choose their options

    @property
    def long(self) -> str:
        """The option's name on the command line, such as "--beam-size", for messages."""
        by_name = f"--{self.name.replace('_', '-')}"
        return next((flag for flag in self.flags if flag.startswith("--")), by_name)

    @property
    def item(self) -> Any:
        """The type of a value on the command line: `kind` without None, or a tuple's item type."""
        if get_origin(self.kind) not in (tuple, Union, UnionType):
            return self.kind
        kinds = [kind for kind in get_args(self.kind) if kind not in (NoneType, Ellipsis)]
        return self.kind if len(kinds) > 1 else kinds[0]

    @property
    def is_repeated(self) -> bool:
        """True if the option may be given several times."""
        return get_origin(self.kind) is tuple

    def convert(self, value: Any, is_text: bool = False) -> Any:
        """Check a value and return it in the option's type.

        is_text: whether the value is a str from the command line, such as "8" for an int; of an
        option that may be repeated it is one item of the tuple. Raises ValueError, which says what
        was expected.
        """
        if self.choices and value not in self.choices:
            raise ValueError(f"expected one of {', '.join(self.choices)}")
        kind = self.item if is_text else self.kind
        try:
            return msgspec.convert(value, kind, strict=not is_text)
        except msgspec.ValidationError as error:
            raise ValueError(explain_mistake(str(error))) from None


def option(default: Any, help: str, *flags: str, **more: Any) -> Any:
    """Declare a field of a dataclass that becomes an option of a command; return the field.

    help, flags, more: the fields of Option by these names, such as metavar="N". Raises ValueError
    for an empty help: --help and the documentation of the API are made of it.
    """
    if not help.strip():
        raise ValueError("an option needs a help text")
    return field(default=default, metadata={"help": help, "flags": flags, **more})


@cache
def options_of(record: type) -> dict[str, Option]:
    """Return the options that a class declares, by field name.

    A dataclass declares them by `option`, a configuration section (a msgspec Struct) by types like
    Annotated[int, option_help("Random seed.")].
    """
    hints = get_type_hints(record, include_extras=True)
    if is_dataclass(record):
        return {
            field.name: Option(field.name, hints[field.name], field.default, **field.metadata)
            for field in fields(record)
            if field.metadata
        }
    options = {}
    for key in msgspec.structs.fields(record):
        hint = hints[key.name]
        for meta in get_args(hint)[1:]:
            if isinstance(meta, Meta) and meta.description:
                options[key.name] = Option(key.name, hint, key.default, meta.description)
    return options


def check_values(
    values: Mapping[str, Any], options: Mapping[str, Option], shown: Callable[[str], str] = str
) -> dict[str, Any]:
    """Check values against the options of their names; return them in the options' types.

    Values without an option are returned as they are. shown: returns the spelling of a name for
    messages, such as "--beam-size". Raises SettingError, which names the option, for a wrong value.
    """
    checked = dict(values)
    for name in values.keys() & options.keys():
        try:
            checked[name] = options[name].convert(values[name])
        except ValueError as error:
            raise SettingError(f"{shown(name)} is {shorten(values[name])}: {error}") from None
    return checked


def check_name(key: str, name: str, names: Iterable[str]) -> None:
    """Raise ConfigError if the value of a configuration key is not one of the registered names.

    key: the key, for the message, such as "train.schedule"; name: its value; names: all names of
    such things in the package and in the imported plugins.
    """
    if name not in names:
        choices = ", ".join(names)
        raise ConfigError(
            f"configuration {key}: {shorten(name)} is not one of {choices}; {NEEDS_PLUGIN}"
        )


def explain_mistake(message: str) -> str:
    """Return msgspec's message "Expected `int`, …" as "expected a whole number, …"."""
    words = re.sub("`(int|float|str|bool)`", lambda match: WORDS[match[1]], message)
    return f"{words[0].lower()}{words[1:]}".replace("`", "")


def shorten(value: object) -> str:
    """Return the repr of a value for a message, printable and cut to MAX_SHOWN_CHARS (40)."""
    text = printable(repr(value))
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"
