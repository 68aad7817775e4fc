"""The recipe of a container is one that tools/verify/container.sh can read, of files that are there."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_its_steps_stand_on_a_line_each_and_what_they_copy_is_there() -> None:
    lines = (ROOT / "tools" / "Dockerfile").read_text(encoding="utf-8").splitlines()
    steps = [line.split() for line in lines if line and not line.startswith("#")]
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}
    assert {step[0] for step in steps} <= known
    copied = [name for step in steps if step[0] == "COPY" and step[1][0] != "-" for name in step[1:-1]]
    assert {"pyproject.toml", "bytenmt"} <= set(copied) and all((ROOT / name).exists() for name in copied)
    last = max(place for place, step in enumerate(steps) if step[0] == "FROM")
    assert ["USER", "65534:65534"] in steps[last:], "whoever runs in the image is nobody"
