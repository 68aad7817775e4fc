"""Explain what is wrong with a configuration, and suggest the nearest key or the values of a key."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from msgspec import Struct

from bytenmt.config.untrusted import printable, shown
from bytenmt.plugins import module_of

Sections = Mapping[str, type[Struct]]


def explained(said: str, sections: Sections) -> str:
    """One line for what msgspec said of a configuration with these sections."""
    what, _, where = printable(said).partition(" - at `$.")
    path = where.rstrip("`")
    unknown = re.fullmatch("Object contains unknown field `(.*)`", what)
    if unknown:
        key = ".".join([path, unknown[1]]).lstrip(".")
        meant = nearest(key, sections)
        hint = f"did you mean {meant}?" if meant else "`bytenmt info ARCH` prints every key"
        return f"unknown key {key}: {hint}"
    values = choices(path, sections)
    if what.startswith("Invalid enum value") and values:
        what = f"{what.replace('Invalid enum value ', '')} is none of {', '.join(values)}"
    return f"configuration {path}: {what}" if path else f"configuration: {what}"


def unknown_architecture(arch: str, known: Sequence[str]) -> str:
    """One line for the name of an architecture that is none of those that are known here."""
    return (
        f"configuration model.arch: {shown(arch)} is not one of {', '.join(known)}: choose one of"
        " them, or load its plugin by --plugin"
    )


def missing_plugin(what: str, plugins: Iterable[object]) -> str:
    """Return an error message, with a hint which plugins of the run to load if some are missing.

    what: the message, about an unknown name. plugins: modules and files that the run has recorded.
    """
    absent = [name for name in plugins if isinstance(name, str) and module_of(name) not in sys.modules]
    given = " ".join(f"--plugin {printable(name, 64)}" for name in absent)
    return f"{what}; the run has plugins: give {given}" if absent else what


def nearest(key: str, sections: Sections) -> str | None:
    """The known key that an unknown one looks most like: the same name in another section before one that is
    spelt alike."""
    known = [f"{name}.{key}" for name, section in sections.items() for key in section.__struct_fields__]
    own = key.rpartition(".")[2]
    for candidate in known:
        if candidate.rpartition(".")[2] == own:
            return candidate
    alike = get_close_matches(key, known, n=1, cutoff=0.75)
    if not alike:
        names = {one.rpartition(".")[2]: one for one in known}
        alike = [names[name] for name in get_close_matches(own, names, n=1, cutoff=0.75)]
    return alike[0] if alike else None


def choices(path: str, sections: Sections) -> tuple[str, ...]:
    """The values of a key that has but a few; none of another one."""
    section, _, name = path.partition(".")
    if section not in sections:
        return ()
    hint: Any = get_type_hints(sections[section], include_extras=False).get(name)
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return tuple(map(str, get_args(hint))) if get_origin(hint) is Literal else ()
