"""Test the built package: all sub-packages, the marker of types, and the build."""

import tomllib
from pathlib import Path

import pytest

import bytenmt

PACKAGE = Path(bytenmt.__file__).parent
ROOT = PACKAGE.parent
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]


def test_every_folder_is_installed() -> None:
    """Every folder is a package that setuptools finds: one without __init__.py would be left out silently."""
    find_packages = pytest.importorskip("setuptools").find_packages
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    standing = {".".join(path.relative_to(ROOT).parts) for path in folders}
    assert set(find_packages(str(ROOT), **SETUPTOOLS["packages"]["find"])) == standing


def test_what_is_no_python_is_installed_too() -> None:
    """Without py.typed a type checker takes all of the package for Any."""
    patterns = SETUPTOOLS["package-data"]["bytenmt"]
    named = {str(path.relative_to(PACKAGE)) for pattern in patterns for path in PACKAGE.glob(pattern)}
    standing = {path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    others = {str(path.relative_to(PACKAGE)) for path in standing if path.suffix != ".py"}
    assert "py.typed" in named and named == others
