"""Tags in strings: as codes and as strings again, and repaired if they went astray."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytenmt.documents.placement import lines_to_repair, repair
from bytenmt.documents.text_tags import join_tags, split_kept, split_tags
from bytenmt.documents.translation import LineTranslation
from bytenmt.documents.unit import CodedText
from bytenmt.sentinels import Code


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("on GitHub now", ["GitHub"]),
        (
            'a <xliff:g id="phoneAccount">%1$s</xliff:g>',
            ['<xliff:g id="phoneAccount">%1$s</xliff:g>'],
        ),
        ('<ahelp hid="cui:ColorPicker:Red">Sets it.</ahelp>', []),
        ("the {{ serviceName }} of {{userName}}", []),
        (
            "<a href='{{siteUrl}}'>{{ siteName }}</a> is",
            ["<a href='{{siteUrl}}'>{{ siteName }}</a>"],
        ),
        ("see `Contents/MacOS/blender`", []),
        ("<b>two words</b> and <i>MacOS</i>", ["<i>MacOS</i>"]),
        ("<br/>MacOS</br>", ["MacOS"]),
    ],
)
def test_names_and_tags_around_kept_spans(text: str, codes: list[str]) -> None:
    parts = split_kept(text)
    assert [part.text for part in parts if isinstance(part, Code)] == codes
    assert "".join(part if isinstance(part, str) else part.text for part in parts) == text


@given(
    st.lists(st.sampled_from(["<b>", "</b>", "<i x='1'>", "</i>", "<br/>", "a", " "])).map("".join)
)
def test_tags_are_strings_again(text: str) -> None:
    assert join_tags(split_tags((text,))) == ((text,) if text else ())


def repaired(source: str, translation: str, further: dict[str, str]) -> str:
    translations: dict[CodedText, LineTranslation] = {(source,): LineTranslation([translation])}
    lines = lines_to_repair(translations)
    assert [line for (line,) in lines] == list(further)
    more = {line: LineTranslation([further[str(line[0])]]) for line in lines}
    (result,) = repair(translations, more).values()
    return "".join(map(str, result.parts))


def test_a_pair_that_lost_its_words() -> None:
    assert (
        repaired(
            "Click the <em>Entries</em> tab of {name}.",
            "Klicken Sie auf das Register Einträge von {name}.<em></em>",
            {"Click the Entries tab of {name}.": "Klicken Sie auf die Einträge von {name}."}
            | {"Entries": "Einträge"},
        )
        == "Klicken Sie auf die <em>Einträge</em> von {name}."
    )


def test_tags_that_are_right_stay() -> None:
    translations: dict[CodedText, LineTranslation] = {
        ("<b>one</b> two",): LineTranslation(["zwei <b>eins</b>"])
    }
    assert lines_to_repair(translations) == []


def test_a_pair_that_finds_no_place_is_put_at_the_end() -> None:
    """If nothing was torn apart, the translation stays."""
    further = {"a one b": ". .", "one": "1"}
    assert repaired("a <em>one</em> b", ". <em>.", further) == ". .<em></em>"
    assert repaired("a <em>one</em> b", ". .<em></em>", further) == ". .<em></em>"
