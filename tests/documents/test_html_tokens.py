"""The tokenizer of HTML beside html5lib's, which is the standard's own algorithm, character by character."""

from __future__ import annotations

import pytest
from html5lib._tokenizer import HTMLTokenizer
from html5lib.constants import tokenTypes
from hypothesis import given, settings
from hypothesis import strategies as st

from bytenmt.documents.document import ALONE, CLOSE, OPEN, TEXT
from bytenmt.documents.html import RAW_TEXT, Token, attributes, tokens, unescape_text
from tools.verify.sample_documents import HTML

Found = list[tuple[str, str, object]]


def of_the_standard(page: str) -> Found:
    """Tags with their attributes, and the text between them."""
    tokenizer = HTMLTokenizer(page)
    found: Found = []
    for token in tokenizer:
        kind, name = token["type"], token.get("name", "")
        if kind in (tokenTypes["StartTag"], tokenTypes["EmptyTag"]):
            closes_itself = bool(token.get("selfClosing"))
            found.append(("start", name, list(dict(token["data"]).items())))
            if not closes_itself:  # a <script/> of XHTML has no content
                if name == "script":
                    tokenizer.state = tokenizer.scriptDataState
                elif name == "plaintext":
                    tokenizer.state = tokenizer.plaintextState
                elif name in RAW_TEXT:
                    tokenizer.state = tokenizer.rawtextState
                elif name in ("title", "textarea"):
                    tokenizer.state = tokenizer.rcdataState
        elif kind == tokenTypes["EndTag"]:
            found.append(("end", name, None))
        elif kind in (tokenTypes["Characters"], tokenTypes["SpaceCharacters"]):
            if found and found[-1][0] == "text":
                found[-1] = ("text", "", str(found[-1][2]) + token["data"])
            else:
                found.append(("text", "", token["data"]))
    return found


def ours(page: str) -> Found:
    found: Found = []
    raw = ""  # the element whose content has no references
    for token in tokens(page):
        if token.kind in (OPEN, ALONE):
            known: dict[str, str] = {}
            for name, value, *_ in attributes(page, token):
                known.setdefault(name, value)
            found.append(("start", token.name, list(known.items())))
            raw = token.name if token.kind == OPEN and token.name in (*RAW_TEXT, "plaintext") else ""
            continue
        text = page[token.start : token.end]
        if token.kind == CLOSE:
            found.append(("end", token.name, None))
        elif token.kind == TEXT or raw:
            text = text if raw else unescape_text(text)
            if found and found[-1][0] == "text":
                found[-1] = ("text", "", str(found[-1][2]) + text)
            elif text:
                found.append(("text", "", text))
        raw = ""
    return found


PIECES = [
    *(
        "<p>",
        "</p>",
        "<b class=x>",
        "</b >",
        "<a href='x>y' b>",
        "<br/>",
        "<i/ a>",
        "<p\na = \"b\" c='d'>",
        "</>",
        "< ",
    ),
    *(
        "<script>",
        "</script>",
        "</script ",
        "<style>",
        "</style>",
        "<title>",
        "</title>",
        "<textarea>",
        "</textarea>",
    ),
    *(
        "<!--",
        "-->",
        "--!>",
        "<!-->",
        "<!--->",
        "->",
        "-",
        "<!DOCTYPE html>",
        "<!x",
        "<?php ?>",
        "</#",
        "<![CDATA[",
        "]]>",
    ),
    *(
        "a",
        "text ",
        "\n",
        "<",
        ">",
        "/",
        "=",
        "'",
        '"',
        "&amp;",
        "<a b='",
        '<a b="',
        "<a b=",
        "<a ",
        "<plaintext>",
        "<xmp>",
    ),
    *(
        "</xmp>",
        "<SCRIPT >",
        "</Script>",
        "<!--<script>",
        "</",
        "<iframe>",
        "</iframe/>",
        "<x y=z/>",
        "<x y=/>",
        "<=>",
    ),
]


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_any_page_is_read_as_the_standard_has_it(page: str) -> None:
    assert ours(page) == of_the_standard(page)


@given(st.lists(st.sampled_from([*PIECES, "<svg>", "</svg>", "<pre>"]), max_size=12).map("".join))
def test_tokens_are_the_whole_page(page: str) -> None:
    assert "".join(page[token.start : token.end] for token in tokens(page)) == page
    assert all(token.start < token.end for token in tokens(page))


def test_a_page() -> None:
    assert ours(HTML) == of_the_standard(HTML)
    names = [token.name for token in tokens("<svg><![CDATA[</svg>]]></svg>a") if token.kind in (OPEN, CLOSE)]
    assert names == ["svg", "svg"]
    assert tokens("") == [] and tokens("a") == [Token(TEXT, "", 0, 1)]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("&#65;&#x41;&#0065;&amp;&lt;&copy", "AAA&<\u00a9"),
        (f"&#{'0' * 6000}65;", "A"),
        (f"a&#{'9' * 6000};b", "a\ufffdb"),
        (f"&#x{'f' * 6000};", "\ufffd"),
        (f"&#{'0' * 6000};", "\ufffd"),
        ("&#1114112;", "\ufffd"),
    ],
)
def test_references_of_any_length(raw: str, text: str) -> None:
    assert unescape_text(raw) == text
