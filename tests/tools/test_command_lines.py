"""Every tool runs from wherever it is called, and with this checkout's package."""

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = [*sorted(ROOT.glob("tools/*.py")), *sorted(ROOT.glob("tools/*/*.py"))]
TOOLS = [path for path in FILES if "__main__" in path.read_text(encoding="utf-8")]


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_tool_tells_its_usage_from_elsewhere(
    tool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tool that imports from the checkout puts it before what is installed."""
    text = tool.read_text(encoding="utf-8")
    n_up = len(tool.relative_to(ROOT).parts) - 1
    own = re.search(r"^from (?:bytenmt|tools)\b", text, re.MULTILINE)
    first = f"\n    sys.path[0] = str(Path(__file__).resolve().parents[{n_up}])"
    assert own is None or first in text[: own.start()]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(tool), "--help"])
    monkeypatch.setattr(sys, "path", [str(tool.parent), *sys.path])  # as Python starts a file
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(tool), run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out.lower().startswith(f"usage: {tool.name}")
