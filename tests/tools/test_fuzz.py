"""The fuzzer: a short one finds nothing, and in a program with a fault it finds the fault."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from processes import FORKSERVER, SECONDS

from bytenmt.checkpoints import weights
from bytenmt.cli.main import main
from tools.verify import fuzz, fuzz_children, fuzz_options

pytestmark = pytest.mark.slow

N_FILES, N_OTHERS = 30, 20  # mutations of weights files by each engine, and of each other kind


def fuzz_briefly(path: Path) -> None:
    """Write the outcomes of each kind, and of programs with planted faults, to a file; for a process of its
    own, because one with threads must not fork."""
    fuzz.torch.set_num_threads(1)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        cases = fuzz.make_cases(place)

        def kinds(numbers: Iterable[int], engine: str = "numba", kind: str = "files") -> list[str]:
            fuzzer = fuzz.Fuzzer(cases, place, 7, engine, [kind])
            return [one.kind for one in fuzz_children.run_in_children(fuzzer.run, numbers, place)]

        def planted(name: str, fault: Callable[..., Any], numbers: Iterable[int]) -> list[str]:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(weights, name, fault)
                return kinds(numbers)

        for engine in ("torch", "numba"):
            fuzz.Fuzzer(cases, place, 7, engine, ["files"]).warm_up()
            found[engine] = kinds(range(N_FILES), engine)
        found["options"] = kinds(range(N_OTHERS), kind="options")
        few = [number for number, kind in enumerate(found["numba"]) if kind == "output"][:2]
        fuzz_children.CPU_SECONDS = fuzz_children.WALL_FACTOR = 1
        found["unchecked"] = planted("describe_misfit", lambda *parts: None, range(N_FILES))
        found["believed"] = planted("parse_facts", lambda facts: 1 / 0, few)
        found["hanging"] = planted("parse_facts", lambda facts: time.sleep(60), few)
        found["crashing"] = planted("parse_facts", lambda facts: os.abort(), few)
        found["hungry"] = planted("parse_facts", lambda facts: bytes(bytearray(5 << 30)) and facts, few)
    path.write_text(json.dumps(found), encoding="utf-8")


def test_a_short_one_finds_nothing_and_a_fault_is_found(tmp_path: Path) -> None:
    """Mutations of files by both engines and of each other kind; then planted faults."""
    process = FORKSERVER.Process(target=fuzz_briefly, args=(tmp_path / "found.json",))
    process.start()
    process.join(5 * SECONDS)
    assert process.exitcode == 0
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    for engine in ("torch", "numba"):
        assert set(found[engine]) == {"output", "refused"} and len(found[engine]) == N_FILES
        assert N_FILES // 10 < found[engine].count("output") < 0.7 * N_FILES
    assert set(found["options"]) <= {"output", "refused", "usage"} and len(set(found["options"])) > 1
    assert len(found["options"]) == N_OTHERS
    assert "misfit" in found["unchecked"]
    assert [set(found[name]) for name in ("believed", "hanging", "crashing", "hungry")] == [
        {"traceback"},
        {"time"},
        {"signal"},
        {"memory"},
    ]


def test_every_command_is_tried_or_says_why_not() -> None:
    paths = fuzz_options.Paths(*[Path(name) for name in ("run", "language", "text", "document", "out")])
    tried = fuzz_options.commands()
    for name in tried:
        line = fuzz_options.valid_line(name, paths)
        assert line[: len(name.split())] == name.split()
    assert {name.split()[0] for name in tried} | set(fuzz_options.NOT_TRIED) == set(main.every())
