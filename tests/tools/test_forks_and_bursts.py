"""The check of forks, bursts of threads and Ctrl-C: a short one finds nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def test_forks_bursts_and_interrupts_neither_hang_nor_grow() -> None:
    counts = {"forks": 12, "bursts": 12, "interrupts": 24}
    command = [sys.executable, "tools/verify/threads.py", "--model=data/models/en-de"]
    command += [f"--{name}={n}" for name, n in counts.items()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    made = re.findall(r"^(\w+).*?: (\d+), threads", done.stdout, re.MULTILINE)
    assert [(name, int(n)) for name, n in made] == [
        ("forks", 6), ("forks", 6), ("bursts", 12), ("interrupts", 24)
    ]  # fmt: skip
