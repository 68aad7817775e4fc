"""Words and their translations, found in made-up parallel text."""

import random
from pathlib import Path

import pytest

from tools import word_pairs

LEXICON = {"cat": "Katze", "dog": "Hund", "house": "Haus", "sees": "sieht", "likes": "mag", "old": "alte"}


def text(n: int = 300) -> tuple[list[str], list[str]]:
    draw, sources, targets = random.Random(1), [], []
    for _ in range(n):
        words = draw.sample(list(LEXICON), 3)
        first = words[0].capitalize()
        sources.append(" ".join([first, *words[1:]]) + ".")
        targets.append(" ".join([LEXICON[words[2]], LEXICON[words[0]], LEXICON[words[1]]]) + "!")
    return sources, targets


def test_rare_words_and_unclear_ones_are_left_out() -> None:
    sources, targets = text()
    sources += ["rare cat"] * 3 + ["thing dog"] * 24
    targets += ["Selten Katze"] * 3 + [f"Hund {word}" for word in ("Ding", "Sache", "Zeug", "Teil")] * 6
    found = dict(word_pairs.word_pairs(sources, targets))
    assert found == LEXICON


def test_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the order of words; first words are found as they stand inside of sentences."""
    for name, side in zip(("src", "tgt"), text(), strict=True):
        (tmp_path / name).write_text("\n".join(side) + "\n", encoding="utf-8")
    out = tmp_path / "words"
    given = f"--src {tmp_path}/src --tgt {tmp_path}/tgt -o {out}/a {out}/b".split()
    assert word_pairs.main(given) == 0
    sides = [(out / name).read_text(encoding="utf-8").split() for name in "ab"]
    assert dict(zip(*sides, strict=True)) == LEXICON
    assert "6 pairs of words" in capsys.readouterr().out
    assert word_pairs.main([*given[:1], str(tmp_path / "none"), *given[2:]]) == 1
