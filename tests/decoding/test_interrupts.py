"""Ctrl-C ends a translation wherever it arrives."""

import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from bytenmt.decoding.translator import Translator

MODEL = Path(__file__).resolve().parents[2] / "data/models/en-de"


def translate(translator: Translator) -> str:
    translator._engines.clear()  # as after an interrupt: engines are made anew
    return translator.translate("Train 3 leaves.")


def called_functions(translator: Translator) -> list[CodeType]:
    """Return the Python functions that a translation calls, each once."""
    called: dict[CodeType, None] = {}

    def note(frame: FrameType, event: str, argument: Any) -> None:
        called.setdefault(frame.f_code)

    sys.settrace(note)
    try:
        translate(translator)
    finally:
        sys.settrace(None)
    return list(called)


@pytest.mark.slow
def test_no_function_swallows_an_interrupt() -> None:
    """NumPy drops exceptions of Python code that it calls to look for attributes, as those of enums do."""
    translator = Translator.load(MODEL, device="cpu", threads=1)
    expected = translate(translator)
    functions = called_functions(translator)
    assert len(functions) > 100

    swallowed = []
    for code in functions:

        def interrupt(frame: FrameType, event: str, argument: Any, code: CodeType = code) -> None:
            if frame.f_code is code:
                raise KeyboardInterrupt

        sys.settrace(interrupt)
        try:
            translate(translator)
            swallowed.append(f"{code.co_filename}:{code.co_firstlineno} {code.co_qualname}")
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
    assert not swallowed
    assert translate(translator) == expected
