"""Entries of PO that are format strings: their conversions are kept, and compared as msgfmt does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from bytenmt.documents.format_strings import format_style, has_same_arguments
from bytenmt.documents.memory import TranslationMemory
from bytenmt.documents.translation import translate
from bytenmt.documents.unit import Parts
from bytenmt.sentinels import Code
from tools.verify.made_up_translations import document, translated

HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
CASES = [
    ("c", "%s of %d", "%s von %d", True),
    ("c", "%s of %d", "%d von %s", False),
    ("c", "%1$s of %2$d", "%2$d von %1$s", True),
    ("c", "%*d x", "%d x", False),
    ("c", "%d x", "%ld x", False),
    ("c", "100%% %s", "100 %% %s", True),
    ("c", "100%% %s", "100 % %s", False),
    ("c", "%'d % d", "%'d % d", True),
    ("java-printf", "%,d of %s", "%s von %,d", False),
    ("python", "%(a)s %(b)d", "%(b)d %(a)s", True),
    ("python", "%(a)s %(b)d", "%(a)s", False),
    ("python-brace", "{a:>3} {b}", "{b} {a:>3}", True),
    ("python-brace", "{a} {b}", "{a} {c}", False),
    ("java", "{0} of {1}", "{1} von {0}", True),
    ("java", "{0} of {1}", "{0} von", False),
    ("qt", "%1 of %2", "%2 von %1", True),
    ("qt", "%1 of %2", "%1 von", False),
]


def entry(flag: str, source: str, translation: str = "") -> str:
    return f'{HEADER}#, {flag}\nmsgid "{source}"\nmsgstr "{translation}"\n'


@pytest.mark.parametrize(("kind", "source", "translation", "same"), CASES)
def test_arguments_are_compared_as_msgfmt_compares_them(
    kind: str, source: str, translation: str, same: bool, tmp_path: Path
) -> None:
    style = format_style(["fuzzy", f"{kind}-format"])
    assert style is not None and has_same_arguments(style, source, translation) is same
    if shutil.which("msgfmt"):
        (tmp_path / "a.po").write_text(entry(f"{kind}-format", source, translation))
        command = ["msgfmt", "--check-format", "-o", "/dev/null", str(tmp_path / "a.po")]
        assert (subprocess.run(command, capture_output=True, check=False).returncode == 0) is same


def test_flags_that_name_no_format() -> None:
    assert format_style(["fuzzy", "no-c-format", "wrap"]) is None


def test_a_translation_with_other_arguments_is_fuzzy() -> None:
    """A model and a memory may each make one."""
    source, other = "The %s of %d files", "%d von %s Dateien"
    fuzzy = entry("fuzzy, c-format", source, other)
    made = document("a.po", entry("c-format", source), None)
    report = translate(made, {}, memory=TranslationMemory([((source,), (other,), "")]))
    assert made.dump().decode() == fuzzy and report.notes[0][1].startswith("to review: wrong")
    for flag, is_fuzzy in (("c-format", True), ("wrap", False)):
        text = translated("a.po", entry(flag, source), lambda line: swapped(line, other))[0].decode()
        assert ("fuzzy" in text) == is_fuzzy


def swapped(line: Parts, other: str) -> Parts:
    codes = [part for part in line if isinstance(part, Code)]
    return (codes[1], " von ", codes[0], " Dateien") if codes else (other,)
