"""The translators in the clone: small, with a card of their training text; they translate."""

import json
from pathlib import Path

import pytest

from bytenmt import Translator
from bytenmt.checkpoints.weights import read_run

MODELS = Path(__file__).parents[2] / "data" / "models"
KNOWN = {
    "en-de": {
        "Tom is my brother.": "Tom ist mein Bruder.",
        "We have no time.": "Wir haben keine Zeit.",
        "This book is very interesting.": "Dieses Buch ist sehr interessant.",
    },
    "de-en": {
        "Wo wohnst du?": "Where do you live?",
        "Tom ist mein Bruder.": "Tom is my brother.",
        "Ich liebe dich.": "I love you.",
    },
    "en-ko": {
        "Password": "비밀번호",
        "Save changes before closing?": "닫기 전에 변경 사항을 저장하시겠습니까?",
    },
    "ko-en": {
        "비밀번호를 입력하십시오.": "Enter your password.",
        "나는 학생이에요.": "I'm a student.",
    },
}


@pytest.mark.parametrize("name", sorted(path.name for path in MODELS.iterdir() if path.is_dir()))
def test_a_model_in_the_clone(name: str) -> None:
    folder = MODELS / name
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 7_500_000
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "sources and licences of its text" in card and "cc-by-2.0" in card and "mpl-2.0" in card
    matter = dict(line.split(": ", 1) for line in card.split("---\n")[1].splitlines())
    values = {key: json.loads(value) for key, value in matter.items()}  # JSON is YAML, too
    assert (values["language"], values["pipeline_tag"]) == (name.split("-"), "translation")
    flags = read_run(folder)[1].facts.flags
    assert flags is not None and [*flags.searches] == ["greedy", "beam", "reranked"]
    translator = Translator.load(folder, beam=5, threads=1)
    assert translator.translate([*KNOWN[name]]) == [*KNOWN[name].values()]
