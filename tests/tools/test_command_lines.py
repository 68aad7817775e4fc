"""Every tool runs from wherever it is called, and with this checkout's package."""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = [*sorted(ROOT.glob("tools/*.py")), *sorted(ROOT.glob("tools/*/*.py"))]
TOOLS = [path for path in FILES if "__main__" in path.read_text(encoding="utf-8")]
CHECKOUT_FIRST = "sys.path[0] = str(Path(__file__).resolve().parents[{}])"  # how far up that is


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def own_imports(body: list[ast.stmt]) -> list[int]:
    """Lines on which a module imports from this checkout."""
    roots = ("bytenmt", "tools")
    return [
        node.lineno
        for node in body
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in roots
    ]


def paths_set(tool: Path, body: list[ast.stmt]) -> list[int]:
    """Lines of the statements, not of words in a docstring, that put the checkout first."""
    wanted = CHECKOUT_FIRST.format(len(tool.relative_to(ROOT).parts) - 1)
    return [
        inner.lineno
        for node in body
        if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)
        for inner in node.body
        if ast.unparse(inner) == wanted
    ]


@pytest.mark.parametrize("tool", TOOLS, ids=name)
def test_a_tool_takes_the_checkout_before_what_is_installed(tool: Path) -> None:
    body = ast.parse(tool.read_text(encoding="utf-8")).body
    needs = own_imports(body)
    assert not needs or paths_set(tool, body) and paths_set(tool, body)[0] < needs[0]


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS, ids=name)
def test_a_tool_tells_its_usage_from_elsewhere(
    tool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(tool), "--help"])
    monkeypatch.setattr(sys, "path", [str(tool.parent), *sys.path])  # as Python starts a file
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(tool), run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out.lower().startswith(f"usage: {tool.name}")
