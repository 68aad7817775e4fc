"""The editable installation of a checkout, as `pip install -e .` makes it, and what is built."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import bytenmt
from bytenmt.errors import EXTRAS

ROOT = Path(__file__).resolve().parents[2]
BUILD = "import sys; from setuptools import build_meta as m; print(m.build_editable(sys.argv[1]))"
IMPORT = "import site, sys; site.addsitedir(sys.argv[1]); import bytenmt; print(bytenmt.__file__)"


@pytest.mark.slow
def test_the_folder_of_a_clone_is_not_taken_for_the_package(tmp_path: Path) -> None:
    """A clone is a folder named bytenmt, too. In the folder around it, Python must not take it for
    a namespace package, which would be empty."""
    clone = tmp_path / "bytenmt"
    site = tmp_path / "site"
    (clone / "bytenmt").mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "bytenmt/__init__.py", "bytenmt/errors.py"):
        shutil.copy(ROOT / name, clone / name)
    words = [sys.executable, "-c", BUILD, str(tmp_path)]
    built = subprocess.run(words, cwd=clone, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    with zipfile.ZipFile(tmp_path / built.stdout.splitlines()[-1]) as wheel:
        wheel.extractall(site)
    # Without site-packages (-S), where the tests' own installation would be found.
    words = [sys.executable, "-S", "-c", IMPORT, str(site)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout.strip() == str(clone / "bytenmt/__init__.py"), done.stderr


# ---- what is built

PACKAGE = Path(bytenmt.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]
IMPORTED = re.compile(
    r"^ *(?:import|from) ([A-Za-z_]\w*)(?:[\w.]*)(?: import .*| as \w+)?$", re.MULTILINE
)


def test_every_folder_is_installed() -> None:
    """Every folder is a package that setuptools finds: without __init__.py it would be left out."""
    find_packages = pytest.importorskip("setuptools").find_packages
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    standing = {".".join(path.relative_to(ROOT).parts) for path in folders}
    assert set(find_packages(str(ROOT), **SETUPTOOLS["packages"]["find"])) == standing


def test_a_missing_package_names_its_extra() -> None:
    """Every package that is imported is Python's, always installed, or in EXTRAS."""
    files = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]
    imported = {name for text in files for name in IMPORTED.findall(text)} - sys.stdlib_module_names
    # Not those of some systems alone.
    lines = [line for line in PROJECT["project"]["dependencies"] if ";" not in line]
    needed = {line.partition(">")[0].replace("-", "_") for line in lines}
    needed |= {"bytenmt", "typing_extensions"}  # the latter for type checkers alone
    assert imported - needed == set(EXTRAS)
    assert set(EXTRAS.values()) <= set(PROJECT["project"]["optional-dependencies"])


def test_what_is_no_python_is_installed_too() -> None:
    """Without py.typed a type checker takes all of the package for Any."""
    patterns = SETUPTOOLS["package-data"]["bytenmt"]
    named = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    standing = {path for path in PACKAGE.rglob("*") if "__pycache__" not in path.parts}
    others = {path for path in standing if path.is_file() and path.suffix != ".py"}
    assert PACKAGE / "py.typed" in named and named == others
