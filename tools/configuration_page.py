"""Write the tables of `data` and `train` in bytenmt/docs/configuration.md from the code.

The meaning of a key is its help, or the comment beside its field; the tables of `model` are written
by hand.

    python tools/configuration_page.py
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # the checkout: tools import each other

import msgspec

import bytenmt
from bytenmt.config.fields import MAX_COUNT, options_of
from bytenmt.config.schema import DataConfig
from bytenmt.config.train_section import TrainConfig
from tools.extras import tool_parser

PAGE = Path(bytenmt.__file__).parent / "docs" / "configuration.md"
TABLE = re.compile(r"^## (data|train)\n((?:(?!\|).*\n)*)(?:\|.*\n)+", re.MULTILINE)
HEAD = "| key | default | values | meaning |\n|---|---|---|---|\n"


def comments(section: type) -> Iterator[tuple[str, str]]:
    """Yield each field with its comment: on its line, or on lines of its own before it."""
    source = inspect.getsource(section)
    lines = source.splitlines()
    (declared,) = ast.parse(source).body
    for node in declared.body if isinstance(declared, ast.ClassDef) else ():
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            first = node.lineno - 1
            while lines[first - 1].strip().startswith("#"):
                first -= 1
            own = lines[first : node.end_lineno]
            parts = [line.rpartition("# ")[2] for line in own if "# " in line]
            yield node.target.id, " ".join(parts)


def values(kind: Any) -> str:
    """Return the values of a type, in words."""
    match kind:
        case msgspec.inspect.Metadata():
            return values(kind.type)
        case msgspec.inspect.LiteralType():
            return ", ".join(f"`{one}`" for one in kind.values)
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            low = f"above {kind.gt:g}" if kind.ge is None else f"{kind.ge:g}"
            if kind.le is not None and kind.le >= MAX_COUNT:  # what nobody has
                return f"from {low}"
            return f"{low} to below {kind.lt:g}" if kind.le is None else f"{low} to {kind.le:,.10g}"
        case msgspec.inspect.UnionType():
            return ", ".join(values(one) for one in kind.types)
        case msgspec.inspect.DictType():
            return "by name"
    return "true, false" if isinstance(kind, msgspec.inspect.BoolType) else "text"


def table(name: str, section: type) -> str:
    """Return the table of a section. Raises ValueError for a key without help and comment."""
    meanings = dict(comments(section))
    meanings |= {key: one.help for key, one in options_of(section).items()}
    described = msgspec.inspect.type_info(section)
    assert isinstance(described, msgspec.inspect.StructType)
    rows = []
    for field in described.fields:
        has_default = field.default is not msgspec.NODEFAULT
        default = msgspec.json.encode(field.default).decode() if has_default else ""
        meaning = meanings[field.name][:1].lower() + meanings[field.name][1:].rstrip(".")
        if not meaning:
            raise ValueError(f"{name}.{field.name}: write a comment beside the field: its meaning")
        rows.append(f"| `{name}.{field.name}` | {default} | {values(field.type)} | {meaning} |\n")
    return HEAD + "".join(rows)


def page(text: str) -> str:
    """Return the page with its tables written anew."""
    sections = {"data": DataConfig, "train": TrainConfig}

    def renewed(match: re.Match[str]) -> str:
        return f"## {match[1]}\n{match[2]}{table(match[1], sections[match[1]])}"

    return TABLE.sub(renewed, text)


if __name__ == "__main__":
    tool_parser(__doc__).parse_args()
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
