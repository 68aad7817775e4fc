"""Entries of PO that are format strings: their conversions are kept, and compared as msgfmt does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from bytenmt.documents.format_strings import format_style, has_same_arguments
from bytenmt.documents.formats import read
from bytenmt.documents.memory import TranslationMemory
from bytenmt.documents.translation import translate
from tools.verify.sample_documents import recording_translator

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
    ("lisp", "~A of ~2,'0D~%", "~A von ~2,'0D", True),
    ("lisp", "~A of ~D", "~D von ~A", False),
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


@pytest.mark.parametrize(
    ("flag", "source", "shown"),
    [
        ("c-format", "The % d of %'d files", "The <x1/> of %'d files"),
        ("c-format", "Save 50% discount on %-s now", "Save 50% discount on <x1/> now"),
        ("no-c-format", "The % d of files", "The % d of files"),
        ("lisp-format", "The ~A of ~:@D, ~~ files", "The <x1/> of <x2/>, <x3/> files"),
        ("c-format", "About ~A of them", "About ~A of them"),
        ("qt-format", "The %1 of %L2 files", "The <x1/> of <x2/> files"),
        ("java-printf-format", "On %1$tY and %b it is", "On %1$tY and <x1/> it is"),
    ],
)
def test_conversions_of_a_declared_format_are_kept(flag: str, source: str, shown: str) -> None:
    ask, noted = recording_translator()
    document = read(entry(flag, source).encode(), "po", Path("a.po"))
    made, told = translate(document, ask, limit=1000)
    assert [segment.text.decode() for segment in noted] == [shown]
    assert bool(told.review) is ("% discount" in source)  # msgfmt takes % D of "50% DISCOUNT" for one
    assert 'msgstr ""' not in made.decode().partition(flag)[2]


SWAPPED = entry("c-format", "The %s of %d files", "%d von %s Dateien")


def test_a_translation_with_other_arguments_is_fuzzy() -> None:
    """A model and a memory may each make one."""
    document = read(entry("c-format", "The %s of %d files").encode(), "po", Path("a.po"))
    fuzzy = SWAPPED.replace("#, c-format", "#, fuzzy, c-format")
    ask, _ = recording_translator(lambda _: b"%d von %s Dateien")
    made, told = translate(document, ask, limit=1000)
    assert made.decode() == fuzzy
    assert [why.split(":")[0] for _, why in told.review] == ["wrong"] and "%s" in told.review[0][1]
    memory = TranslationMemory.from_texts([("The %s of %d files", "%d von %s Dateien")])
    assert translate(document, ask, limit=1000, memory=memory)[0].decode() == fuzzy
    undeclared = read(entry("wrap", "The %s of %d files").encode(), "po", Path("a.po"))
    assert "fuzzy" not in translate(undeclared, ask, limit=1000)[0].decode()


def test_a_sign_before_a_conversion_behind_one_of_the_format() -> None:
    """%%A would be a sign and a letter."""
    ask, _ = recording_translator(lambda segment: segment.text.replace(b"%A", b"%%A"))
    document = read(entry("c-format", "Take % d or %A of it").encode(), "po", Path("a.po"))
    assert "Take % d or % %A of it" in translate(document, ask, limit=1000)[0].decode()
