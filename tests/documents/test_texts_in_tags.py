"""Texts inside of codes: attributes of HTML, images of Markdown; and titles in its front matter."""

from __future__ import annotations

from pathlib import Path

import pytest

from bytenmt.documents.document import TEXT, Document, Parts, UnitPart, joined_text
from bytenmt.documents.formats import format_of, read


def texts(name: str, text: str) -> list[str]:
    return [joined_text(unit.source) for unit in read(text.encode(), name, Path("page")).units]


def capitals(parts: Parts) -> Parts:
    return tuple(UnitPart(part.text.upper()) if part.kind == TEXT else part for part in parts)


def written(document: Document, *numbers: int) -> str:
    """The file with these units in capitals, all of them without numbers."""
    values = [
        (capitals(unit.source), False) if not numbers or number in numbers else None
        for number, unit in enumerate(document.units)
    ]
    return document.with_units(values).decode()


PARAGRAPH = '<p>See <img alt="an icon" src=a> and <a title=\'my "page"\' href=b>this</a>.'


def test_attributes_in_a_sentence_are_units_of_their_own() -> None:
    """A text within a tag is replaced there, whether the sentence around it is translated or not."""
    document = read(PARAGRAPH.encode(), "html", Path("page"))
    tag, link = '<img alt="an icon" src=a>', "<a title='my \"page\"' href=b>"
    assert [joined_text(unit.source) for unit in document.units] == [PARAGRAPH[3:], "an icon", 'my "page"']
    assert written(document, 0) == f"<p>SEE {tag} AND {link}THIS</a>."
    assert written(document, 1) == PARAGRAPH.replace("an icon", "AN ICON")
    assert written(document, 0, 2) == f"<p>SEE {tag} AND <a title='MY \"PAGE\"' href=b>THIS</a>."
    both = '<p>SEE <img alt="AN ICON" src=a> AND <a title=\'MY "PAGE"\' href=b>THIS</a>.'
    assert written(document) == both
    same = [(unit.source, False) for unit in document.units]
    assert document.with_units(same).decode() == PARAGRAPH


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<input placeholder=Name>", ["Name"]),
        ("<textarea placeholder='Your text'>\nas it is</textarea>", ["Your text"]),
        ('<button aria-label="Close"><svg><title>x</title></svg></button>', ["Close"]),
        ('<meta NAME=Description content="A &quot;page&quot;">', ['A "page"']),
        ('<meta property="og:title" content="A page">', ["A page"]),
        ('<meta name=viewport content="width=device-width">', []),
        ('<p translate=no title="no"><img alt="no"></p>', []),
        ('<img alt="no" class="a notranslate">', []),
        ('<link rel=stylesheet title="name"><style title="name"></style>', []),
        ('<img alt="" title="12 %">', []),
        ('<img alt="first" ALT="second">', ["first"]),
        ("<img alt=logo/>", ["logo/"]),
        ('<code title="a tip">x = 1</code> is code', ["a tip", "is code"]),
    ],
)
def test_attributes_that_people_read(page: str, expected: list[str]) -> None:
    assert texts("html", page) == expected


def test_quotes_in_attributes() -> None:
    page = '<img alt=y><img alt=\'a "b"\'><img alt="it\'s">'
    document = read(page.encode(), "html", Path("page"))
    other: list[tuple[Parts, bool]] = [((UnitPart('a "b" & it\'s <c>'),), False)] * 3
    assert document.with_units(other).decode() == (
        '<img alt="a &quot;b&quot; &amp; it\'s &lt;c&gt;">'
        "<img alt='a \"b\" &amp; it&#x27;s &lt;c&gt;'>"
        '<img alt="a &quot;b&quot; &amp; it\'s &lt;c&gt;">'
    )


MARKDOWN = """See ![the icon](a.png "t").

[![one](a.svg)](b) [![two](a.svg)](b)

| a ![cell](c.png) |
|---|
"""


def test_imports_and_exports_of_mdx_are_not_translated() -> None:
    mdx = (
        "import Tabs from '@theme/Tabs';\nimport { A, b as c } from \"./x\"\n\n"
        "export const a = {\n  title: 'x',\n"
        "};\n\nimport './style.css'\n\nexport default Page\n\n"
        "One import from the 'moon'\nexport default it.\n\n"
        "import the file from 'a' to 'b'\n\nexport constants\n"
    )
    assert format_of(Path("page.mdx")) == "markdown"
    document = read(mdx.encode(), "markdown", Path("page.mdx"))
    assert [joined_text(unit.source) for unit in document.units] == [
        "One import from the 'moon' export default it.",
        "import the file from 'a' to 'b'",
        "export constants",
    ]


def test_images_of_markdown() -> None:
    assert texts("markdown", MARKDOWN) == [
        *('See ![the icon](a.png "t").', "the icon", "one", "two", "a ![cell](c.png)", "cell")
    ]
    document = read(MARKDOWN.encode(), "markdown", Path("page"))
    assert written(document) == MARKDOWN.replace("See", "SEE").replace("the icon", "THE ICON").replace(
        "one", "ONE"
    ).replace("two", "TWO").replace("a ![cell", "A ![CELL")
    assert texts("markdown", "![label][] ![](a.png)\n\n[label]: x\n") == []
    alone = read(b"![a](b.png)\n", "markdown", Path("page"))
    assert alone.with_units([((UnitPart("x [y] | z"),), False)]) == b"![x &#91;y&#93; \\| z](b.png)\n"


FRONT_MATTER = """---
title: A title, it's # a comment
subtitle: of two
  lines
description: "With \\"quotes\\""
summary: 'it''s one'
linkTitle: yes
tags: [title]
  title: below
---
title: text
"""


def test_titles_in_front_matter() -> None:
    """The text of YAML, as its parser reads it, is what was put there."""
    yaml = pytest.importorskip("yaml")
    document = read(FRONT_MATTER.encode(), "markdown", Path("page"))
    assert [joined_text(unit.source) for unit in document.units] == [
        *("A title, it's", 'With "quotes"', "it's one", "title: text")
    ]
    matter = FRONT_MATTER.replace("tags: [title]\n  title: below\n", "")
    for text in ("a: b # c \"d\" 'e' \\ ", "Yes", "- a", "plain text", "\u2028 \u00e9", "2020"):
        document = read(matter.encode(), "markdown", Path("page"))
        values = [((UnitPart(text),), False)] * 4
        made = yaml.safe_load(document.with_units(values).decode().split("---\n")[1])
        assert [made[key] for key in ("title", "description", "summary")] == [text] * 3
        assert made["subtitle"] == "of two lines" and made["linkTitle"] is True
    toml = "+++\ntitle = \"a\"\ndescription = 'b'\n+++\n"
    document = read(toml.encode(), "markdown", Path("page"))
    made = document.with_units([((UnitPart("it's"),), False)] * 2).decode()
    assert made == '+++\ntitle = "it\'s"\ndescription = "it\'s"\n+++\n'
