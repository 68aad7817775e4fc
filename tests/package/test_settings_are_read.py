"""Each setting has an effect: some code of the package reads the field that declares it."""

import ast
import inspect
from dataclasses import fields
from functools import cache
from typing import Any

import pytest
from source_tree import MODULES

from bytenmt.config.schema import DataConfig
from bytenmt.config.train_section import TrainConfig
from bytenmt.decoding.interface import SearchOptions
from bytenmt.decoding.search.state import SearchParams
from bytenmt.translation.kept_spans import KeepSpec
from bytenmt.translation.settings import KeepSettings, LineSettings


@cache
def attributes() -> set[tuple[str, str]]:
    """Return what the package reads as (object, attribute): ("train", "lr") for self.train.lr."""
    pairs = set()
    for path in MODULES.values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                pairs.add((ast.unparse(node.value).rpartition(".")[2], node.attr))
    return pairs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("record", "objects"),
    [
        (SearchOptions, {"options", "_options", "params", "search"}),
        (LineSettings, {"settings", "self"}),
        (DataConfig, {"data", "config", "settings"}),
        (TrainConfig, {"train", "settings"}),
    ],
)
def test_each_field_is_read(record: Any, objects: set[str]) -> None:
    """objects: the names of variables and attributes that hold the record in the package."""
    names = getattr(record, "__struct_fields__", None) or [field.name for field in fields(record)]
    unread = [name for name in names if not any((one, name) in attributes() for one in objects)]
    assert unread == [], f"read these fields of {record.__name__} where they have an effect"


@pytest.mark.slow
def test_the_search_uses_each_parameter() -> None:
    """SearchParams.from_options reads each option, which alone has no effect."""
    unused = [name for name in SearchParams._fields if ("params", name) not in attributes()]
    assert unused == [], "read these fields of SearchParams where a search does what they say"


def test_the_spans_to_keep_are_made_of_each_field() -> None:
    parameters = [*inspect.signature(KeepSpec.from_settings).parameters]
    assert parameters == [field.name for field in fields(KeepSettings)]
