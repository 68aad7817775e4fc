"""Files of suggestions: whole lines only, on a full disk and after a crash too."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from made_up_service import client

from bytenmt.serve.languages import Direction
from bytenmt.serve.suggestions import BLOCK_BYTES, Suggestions

EN_DE = Direction("en", "de")


@contextmanager
def files_of_at_most(n_bytes: int) -> Iterator[None]:
    """Inside, the system writes no further bytes to a file, as on a full disk: a write may be short."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_suggestion_on_a_full_disk_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    sent = {"q": "two", "s": "zwei", "source": "en", "target": "de"}
    file = tmp_path / "en-de.tsv"
    with client(suggestions=Suggestions(tmp_path)) as asked:
        assert asked.post("/suggest", json={**sent, "q": "one", "s": "eins"}).status_code == 200
        for n_bytes in (12, 9):  # of the second line three bytes, and none
            with files_of_at_most(n_bytes):
                answer = asked.post("/suggest", json=sent)
            assert answer.status_code == 507 and "could not be stored" in answer.json()["error"]
            assert file.read_bytes() == b"one\teins\n"
        assert asked.post("/suggest", json=sent).json() == {"success": True}
    assert file.read_bytes() == b"one\teins\ntwo\tzwei\n"


@pytest.mark.parametrize("whole", [b"", b"one\teins\n"])
@pytest.mark.parametrize("torn", [b"tw", b"two\tzw\xc3", b"x" * (BLOCK_BYTES + 9)])
def test_a_torn_last_line_is_cut_off(tmp_path: Path, whole: bytes, torn: bytes) -> None:
    (tmp_path / "en-de.tsv").write_bytes(whole + torn)
    Suggestions(tmp_path).add(EN_DE, "three", "drei")
    assert (tmp_path / "en-de.tsv").read_bytes() == whole + b"three\tdrei\n"
