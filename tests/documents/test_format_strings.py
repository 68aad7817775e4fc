"""Entries of PO that are format strings: their conversions are kept, compared as by msgfmt."""

import shutil
import subprocess
from pathlib import Path

import pytest

from bytenmt.documents.memory import TranslationMemory
from bytenmt.documents.po import STYLES, has_same_arguments
from bytenmt.documents.translation import translate
from tools.verify.made_up_translations import document

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
    style = STYLES[f"{kind}-format"]
    assert has_same_arguments(style, source, translation) is same
    if shutil.which("msgfmt"):
        (tmp_path / "a.po").write_text(entry(f"{kind}-format", source, translation))
        command = ["msgfmt", "--check-format", "-o", "/dev/null", str(tmp_path / "a.po")]
        assert (subprocess.run(command, capture_output=True, check=False).returncode == 0) is same


def test_flags_that_name_no_format() -> None:
    """Arguments are compared in entries with a flag alone; those of a memory are, too."""
    source, other = "The %s of %d files", "%d von %s Dateien"
    for flag, expected in (("c-format", "fuzzy, c-format"), ("no-c-format", "no-c-format")):
        made = document("a.po", entry(flag, source), None)
        translate(made, {}, memory=TranslationMemory([((source,), (other,), "")]))
        assert made.dump().decode() == entry(expected, source, other)
