"""Measure how the time to read a document grows with its length, for hostile repeated pieces of text.

    python tools/verify/growth.py [--format NAME]... [--write] [--part K/N] [--show N]

Documents of every format consist of one piece of text repeated: unclosed brackets, quotes, blanks, carriage
returns, nested elements and so on. Each is read at 40 kB and at 160 kB, and the process CPU time (the minimum
of three measurements) may grow at most eightfold: linear time grows fourfold, quadratic time sixteenfold.
Readings below 100 ms are too short to compare; then 160 kB and 640 kB are compared, or nothing where that is
as short. --write also measures the segmentation and the writing of the translated document, with a translator
that returns its input. --part 1/10 takes every tenth piece, starting with the first.

Prints a line for every format and for every piece that fails; the exit code is 1 if one does.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout, before what is installed

from bytenmt.decoding.constraints.constraint_spec import ConstraintSpec
from bytenmt.decoding.interface import Hypothesis
from bytenmt.decoding.line_batch import split_line
from bytenmt.documents.formats import ReadOptions, read
from bytenmt.documents.segments import Segment
from bytenmt.documents.translation import translate
from bytenmt.errors import BytenmtError
from tools.verify.sample_documents import BOLD, FIELD, W, word_archive

SMALL, LARGE = 40_000, 160_000  # bytes of a document
MOST_GROWTH = 8.0
LARGEST = 640_000
LEAST_SECONDS = 0.1  # a reading that takes less is too short to be compared
LIMIT_SECONDS = 20  # CPU time for one reading
SEGMENT_BYTES = 1000
SENTENCES = "sentences"  # a line that is split into sentences and chunks, with kept spans
HTML_TEXT = "format=html"  # text of a request that is declared as HTML


class Case(NamedTuple):
    """A document of any size: `before`, `piece` repeated, `after`, `closing` repeated as often, `end`."""

    format: str
    piece: str
    before: str = ""
    after: str = ""
    closing: str = ""
    end: str = ""

    def document(self, size: int) -> bytes:
        """Return a document of about `size` bytes."""
        each = len((self.piece + self.closing).encode())
        count = max(1, (size - len((self.before + self.after + self.end).encode())) // each)
        repeated = self.piece * count + self.after + self.closing * count
        text = self.before + repeated + self.end
        return word_archive({"word/document.xml": text}) if self.format == "docx" else text.encode()

    def name(self) -> str:
        """Describe the case for the report."""
        closing = f" … {self.closing!r}" if self.closing else ""
        return f"{self.format}: {self.before[-20:]!r} + {self.piece!r} × n{closing} + {self.after[:12]!r}"


RULES = ConstraintSpec(("tags", "placeholders", "urls", "emails"))
SENTENCE_PIECES = [
    *("One. ", "Dr. ", "one. ", "1. ", "A. ", "... ", "가다. ", "。", "!", "A.B", "One.  "),
    *("____a", "- ", "a ---- ", "_ _ _ _      ", "????", "https://a.b/____ "),
    *(
        '"One. ',
        "“One.” ",
        "(One. ",
        "One.) ",
        "<b>One.</b> ",
        "{a}. ",
        "https://a.b/c?d. ",
        "a@b.cd. ",
        "A.[1] ",
    ),
]
# Pieces to try in every format: unchanged where the format allows any text, escaped elsewhere.
PIECES = [
    *("a", "a ", "a. ", "\u00e4", "\U0001f600", "\u2028", "\u0085", "\u00a0"),
    *(" ", "\t", " \t", "\r", "\n", "\r\n", " \r", "\n ", "a\n", "a\r", "a \n"),
    *(
        "<",
        ">",
        "<a",
        "<a ",
        "<a b",
        "<a b=",
        "<a b='",
        '<a b="',
        "<a b='c' ",
        "<a/",
        "</",
        "</a",
        "</a ",
        "<>",
    ),
    *("<b>", "</b>", "<b></b>", "<b></i>", "<b><i>", "<br>", "<br/>", "<b>a", "<b> </b>"),
    *(
        "<!",
        "<!-",
        "<!--",
        "<!-->",
        "<!---->",
        "<!--a-->",
        "-->",
        "<?",
        "<?a?>",
        "<![CDATA[",
        "]]>",
        "<![",
        "<!a",
    ),
    *("&", "&a", "&amp;", "&amp", "&lt;", "&#", "&#1", "&#x", "&#65;", "&;", "&&"),
    *("[", "]", "![", "[^", "\\[", "](", "[a](b)", "[a]", "[a][", "![a](", "[a](b", "[[", "(", "()", ")"),
    *("`", "`` ", "`a", "```", "*", "**", "*a", "a*", "_", "_a", "__a ", "~", "~~", "***a"),
    *(
        "\\",
        "\\\\",
        '"',
        "'",
        '""',
        '"a',
        "'a ",
        "''",
        "|",
        "a|",
        "|a",
        "-",
        "--",
        "- ",
        "+ ",
        "1. ",
        "1",
        "#",
        "# ",
    ),
    *("=", ":", "::", ";", ",", "/", "$", "$$", "@", "a@", "a@b.", ".", "!", "?"),
    *("{", "}", "{a", "{ ", "{{", "{}", "{a}", "${", "%", "%%", "%(", "%(a", "%0", "%1$", "%s", "% "),
    *("<https://", "https://", "https://a.", "<a@", "<http:", "www.", "a.b."),
]
XLIFF_HEAD = '<xliff version="1.2"><file source-language="en" target-language="de"><body>'
XLIFF_END = "</body></file></xliff>"
XLIFF_UNIT = XLIFF_HEAD + '<trans-unit id="1">'
XLIFF_UNIT_END = "</trans-unit>" + XLIFF_END
XLIFF_2_HEAD = '<xliff version="2.0" srcLang="en" trgLang="de"><file id="f">'
TMX_HEAD = '<tmx version="1.4"><header/><body>'
TMX_END = "</body></tmx>"
TMX_UNIT = TMX_HEAD + '<tu><tuv xml:lang="en"><seg>'
TMX_UNIT_END = '</seg></tuv><tuv xml:lang="de"><seg>a</seg></tuv></tu>' + TMX_END
PO_HEAD = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
SRT_HEAD = "1\n00:00:01,000 --> 00:00:02,000\n"
VTT_HEAD = "WEBVTT\n\n00:01.000 --> 00:02.000\n"
BLANKS = (" ", "\t", "\n", "\r", "\r\n", " \n")


def _plain(name: str, before: str = "", after: str = "") -> Iterator[Case]:
    """Yield every piece unchanged: as the whole document, and in the middle of other text."""
    for piece in PIECES:
        yield Case(name, piece, before, after)
        yield Case(name, piece, before + "a", "x" + after)


def _html(name: str) -> Iterator[Case]:
    yield from _plain(name)
    elements = ["pre", "code", "svg", "math", "script", "style", "title", "textarea", "template", "p", "div"]
    elements += ["a", "span", "table", "td", "i translate=no", "p translate=no", "p class=notranslate"]
    for element in elements:
        tag, end = f"<{element}>", f"</{element.split()[0]}>"
        yield Case(name, tag)
        yield Case(name, tag + "a")
        yield Case(name, end)
        yield Case(name, tag + end)
        yield Case(name, tag, "", "a", end)
        yield Case(name, "<script>a", tag)
    for piece in ("<a b=c ", " b=c", " b", " b='c'", " b=c/", "/", " ", "=", "'", '"'):
        yield Case(name, piece, "<p ", "")
        yield Case(name, piece, "<p ", ">text</p>")
    for head in ("<script>", "<style>", "<title>", "<textarea>", "<svg>", "<plaintext>", "<script><!--"):
        for piece in (
            "<",
            "</",
            "</s",
            "</script",
            "</title",
            "<!--",
            "<script",
            "<script>",
            "-->",
            "<![CDATA[",
        ):
            yield Case(name, piece, head)
    yield Case(name, "<b>a<i>b</b>c</i>")
    yield Case(name, "<b><p>")
    yield Case(name, "<b>", "", "", "</i>")
    yield Case(name, "<b> ", "", "a", "</b>")


def _markdown() -> Iterator[Case]:
    yield from _plain("markdown")
    for piece in PIECES:
        yield Case("markdown", piece, "| a | b |\n|---|---|\n| ", " |\n")
        yield Case("markdown", piece + "\n")
    for piece in (
        "> ",
        ">",
        "- ",
        "* ",
        "1. ",
        "    ",
        "# ",
        "[a]: b\n",
        "[^a]: b\n",
        "[a]\n",
        "<div>\n",
        "<b>\n",
        "$a",
        "$$a ",
        "$`",
    ):
        yield Case("markdown", piece)
        yield Case("markdown", piece, "", "a")
        yield Case("markdown", piece + "\n", "", "a")
    for piece in (
        "---\n",
        "+++\n",
        "```\n",
        "~~~\n",
        "$$\n",
        ":::\n",
        "<!--\n",
        "|---",
        "|:-:",
        "- -",
        "{a}",
        "#",
        " #",
    ):
        yield Case("markdown", piece, "a\n")
        yield Case("markdown", piece)
        yield Case("markdown", piece, "# a ", "x\n")
        yield Case("markdown", piece, "---\n")
    for piece in ("a", "a ", "(", "((", ")", "\\", '"', " ", "\t", "[", "<", "b "):
        yield Case("markdown", piece, "[a](", "")
        yield Case("markdown", piece, "[a](", ")")
        yield Case("markdown", f"[a]({piece}")
    yield Case("markdown", "[", "", "a", "](b)")
    yield Case("markdown", "*", "", "a", "*")
    yield Case("markdown", "<b>", "", "a", "</b>")
    yield Case("markdown", "<b>", "", "a", "</i>")
    yield Case("markdown", "- a\n  ")
    yield Case("markdown", "`" * 3 + "a" + "`" * 2 + "b" + "`" + "c")


def _xml(name: str, before: str, after: str) -> Iterator[Case]:
    """Yield every piece as element content: escaped, in CDATA, and as markup where it is well-formed."""
    for piece in PIECES:
        yield Case(name, escape(piece, quote=False), before, after)
        yield Case(name, escape(piece, quote=False), before + "a", "x" + after)
        if "]]>" not in piece:
            yield Case(name, f"<![CDATA[{piece}]]>", before, after)
    for piece in (
        "<x/>",
        "<g/>a",
        "<g>a</g>",
        "<!---->",
        "<!--a-->",
        "<?a?>",
        "<ph>a</ph>",
        "<bpt>a</bpt>",
        "<mrk mtype='protected'>a</mrk>",
        "<sm id='1' translate='no'/>",
        "<sm id='1' translate='no'/>a<em startRef='1'/>",
        "&#65;",
        "&#x41;",
    ):
        yield Case(name, piece, before, after)
    for element in ("g", "ph", "bpt", "mrk", "mrk mtype='seg' mid='1'", "mrk translate='no'", "sub", "x:y"):
        yield Case(name, f"<{element}>", before, "a", f"</{element.split()[0]}>", after)
    yield Case(name, " a='b'", before + "<x", "/>" + after)
    for piece in (" ", "\t", "\n", "a", "'", "&lt;", "/", ">"):
        yield Case(name, piece, before + '<x a="', '"/>' + after)
        yield Case(name, piece, before + "<!--", "-->" + after)
    for piece in BLANKS:
        yield Case(name, piece, before + "<x", "/>" + after)


def _xliff() -> Iterator[Case]:
    yield from _xml("xliff", XLIFF_UNIT + "<source>", "</source>" + XLIFF_UNIT_END)
    unit = '<trans-unit id="1"><source>a</source></trans-unit>'
    yield Case("xliff", unit, XLIFF_HEAD, XLIFF_END)
    yield Case("xliff", unit.replace("</source>", "</source><target>b</target>"), XLIFF_HEAD, XLIFF_END)
    yield Case("xliff", "<group>" + unit, XLIFF_HEAD, "", "</group>", XLIFF_END)
    yield Case("xliff", "<group>", XLIFF_HEAD, unit, "</group>", XLIFF_END)
    yield Case("xliff", "<group translate='yes'>" + unit, XLIFF_HEAD, "", "</group>", XLIFF_END)
    yield Case("xliff", "<trans-unit id='1'><source>a</source>", XLIFF_HEAD, "", "</trans-unit>", XLIFF_END)
    yield Case("xliff", "<source>a</source>", XLIFF_UNIT, XLIFF_UNIT_END)
    yield Case("xliff", "<target>a</target>", XLIFF_UNIT + "<source>a</source>", XLIFF_UNIT_END)
    yield Case("xliff", "<alt-trans><target>a</target></alt-trans>", XLIFF_UNIT, XLIFF_UNIT_END)
    yield Case("xliff", "<note>a</note>", XLIFF_UNIT, "<source>a</source>" + XLIFF_UNIT_END)
    mrk = '<mrk mtype="seg" mid="1">a</mrk> '
    for after in ("", "<target/>", "<target>" + mrk + "</target>"):
        head = XLIFF_UNIT + "<source>a</source><seg-source>"
        yield Case("xliff", mrk, head, "</seg-source>" + after + XLIFF_UNIT_END)
        yield Case("xliff", "<g>" + mrk, head, "", "</g>", "</seg-source>" + after + XLIFF_UNIT_END)
    for piece in BLANKS:
        yield Case("xliff", piece, XLIFF_UNIT, "<source>a</source>" + XLIFF_UNIT_END)
        yield Case("xliff", piece, XLIFF_UNIT + "<note/>", "<source>a</source>" + XLIFF_UNIT_END)
        yield Case("xliff", piece, XLIFF_UNIT + "<source>a</source><target", ">b</target>" + XLIFF_UNIT_END)
        yield Case("xliff", piece, XLIFF_UNIT + "<source>a</source><target", "/>" + XLIFF_UNIT_END)
    segment = "<segment><source>a</source></segment>"
    end = "</file></xliff>"
    yield Case("xliff", segment, XLIFF_2_HEAD + "<unit id='1'>", "</unit>" + end)
    yield Case("xliff", f"<unit id='1'>{segment}</unit>", XLIFF_2_HEAD, end)
    yield Case("xliff", f"<unit id='1'>{segment}", XLIFF_2_HEAD, "", "</unit>", end)


def _tmx() -> Iterator[Case]:
    yield from _xml("tmx", TMX_UNIT, TMX_UNIT_END)
    tuv = '<tuv xml:lang="en"><seg>a</seg></tuv>'
    yield Case("tmx", f"<tu>{tuv}</tu>", TMX_HEAD, TMX_END)
    yield Case("tmx", f"<tu>{tuv}{tuv.replace('en', 'de')}</tu>", TMX_HEAD, TMX_END)
    yield Case("tmx", tuv.replace("en", "fr"), TMX_HEAD + "<tu>", f"{tuv}</tu>" + TMX_END)
    yield Case("tmx", "<seg>a</seg>", TMX_HEAD + "<tu><tuv xml:lang='en'>", "</tuv></tu>" + TMX_END)
    yield Case("tmx", f"<tu>{tuv}", TMX_HEAD, "", "</tu>", TMX_END)
    yield Case("tmx", "<prop>a</prop>", TMX_HEAD + "<tu>", f"{tuv}</tu>" + TMX_END)
    for piece in BLANKS:
        yield Case("tmx", piece, TMX_HEAD + "<tu>", f"{tuv}</tu>" + TMX_END)
        yield Case("tmx", piece, TMX_HEAD + "<tu", f">{tuv}</tu>" + TMX_END)
        yield Case("tmx", piece, f"{TMX_HEAD}<tu>{tuv}<tuv xml:lang='de'><seg", "/></tuv></tu>" + TMX_END)


def _po() -> Iterator[Case]:
    quoted = [piece.replace("\\", "\\\\").replace('"', '\\"') for piece in PIECES]
    for piece in quoted:
        if not set(piece) & set("\r\n"):
            yield Case("po", piece, PO_HEAD + 'msgid "', '"\nmsgstr ""\n')
            yield Case("po", piece, PO_HEAD + 'msgid "a', 'x"\nmsgstr ""\n')
    for piece in PIECES:
        yield Case("po", piece, PO_HEAD)
        yield Case("po", piece, PO_HEAD, 'x\nmsgid "a"\nmsgstr ""\n')
        yield Case("po", piece, PO_HEAD + "# ", '\nmsgid "a"\nmsgstr ""\n')
        yield Case("po", piece, PO_HEAD + "#, ", '\nmsgid "a"\nmsgstr ""\n')
    for piece in (
        'msgid "a"\nmsgstr ""\n',
        'msgid "a"\nmsgstr ""\n\n',
        '"a"\n',
        '"a\\n"\n',
        "#, fuzzy\n",
        "#| a\n",
    ):
        yield Case("po", piece, PO_HEAD, 'msgid "z"\nmsgstr ""\n')
        yield Case("po", piece, PO_HEAD + 'msgid "z"\n', 'msgstr ""\n')
        yield Case("po", piece, PO_HEAD + 'msgid "z"\nmsgstr ""\n')
    yield Case("po", 'msgstr[1] ""\n', PO_HEAD + 'msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\n')
    yield Case("po", "9", 'msgid ""\nmsgstr "Plural-Forms: nplurals=', '; plural=0;\\n"\n')
    yield Case("po", "n+", 'msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural=', '1;\\n"\n')
    yield Case("po", "(", 'msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural=', '1;\\n"\n')
    yield Case("po", "Content-Type: ", 'msgid ""\nmsgstr "', '\\n"\n')
    for flag, piece in (
        ("c", "%("),
        ("c", "% "),
        ("c", "%1"),
        ("lisp", ",'~"),
        ("lisp", "~1"),
        ("java", "{a"),
    ):
        yield Case("po", piece, f'{PO_HEAD}#, {flag}-format\nmsgid "~', '"\nmsgstr ""\n')
    yield Case("po", "\\7", PO_HEAD + 'msgid "', '"\nmsgstr ""\n')


def _cues(name: str, head: str) -> Iterator[Case]:
    yield from _plain(name, head)
    yield from _plain(name)
    time_line = head.strip().rpartition("\n")[2]
    for piece in (
        f"{time_line}\na\n\n",
        f"{time_line}\na\n",
        f"{time_line}\n",
        "a\n\n",
        "- a\n",
        "-",
        "- ",
        "1 ",
        "0:",
        "<i>",
        "{\\",
    ):
        yield Case(name, piece, head)
        yield Case(name, piece, head + "a\n", "x")
        yield Case(name, piece, head + "- ", "x\n- b\n")
    for piece in ("1", " ", "00:", "-->", "1 -->", "--> "):
        yield Case(name, piece, head[:-1] + " ", "\na\n")
        yield Case(name, piece, head + "a\n\n", "\na\n")


def _json(name: str) -> Iterator[Case]:
    for piece in PIECES:
        yield Case(name, json.dumps(piece, ensure_ascii=False)[1:-1], '{"a": "', '"}')
        yield Case(name, json.dumps(piece)[1:-1], '{"a": "a', 'x"}')
        yield Case(name, json.dumps(piece)[1:-1], '{"', '": "a"}')
    for piece in (
        '"a",',
        "1,",
        '{"a": "b"},',
        "[],",
        " ",
        "\n",
        '"a" ,',
        '{"message": "a", "description": "b"},',
        '{"@@locale": "en"},',
        '"@@locale" ,',
    ):
        yield Case(name, piece, "[", "1]")
    for piece in ("1", "1e", "[", '[{"a":', "\\u0041"):
        yield Case(name, piece, "[", "]")
    yield Case(name, '"a",', "[" * 900 + '"b",', '"c"' + "]" * 900)
    yield Case(name, '"\\u0041', "[", "]")


def _apple_strings() -> Iterator[Case]:
    for piece in PIECES:
        quoted = piece.replace("\\", "\\\\").replace('"', '\\"')
        yield Case("strings", quoted, '"a" = "', '";')
        yield Case("strings", quoted, '"', '" = "a";')
        yield Case("strings", piece)
        yield Case("strings", piece, "/* ", ' */ "a" = "b";')
    for piece in ('"a" = "b";\n', "a = b;", "a;", "// x\n", "/**/", "/*", '"a', "\\U0041", "\\7"):
        yield Case("strings", piece)
        yield Case("strings", piece, '"a" = "', '";')


def _android() -> Iterator[Case]:
    head, end = "<resources><string name='a'>", "</string></resources>"
    yield from _xml("android", head, end)
    for piece in ('"', "\\'", "\\", "\\u0041", '" ', "@", "?", "a.", "<xliff:g>a</xliff:g>", "<b>a</b> "):
        yield Case("android", piece, head.replace(">", " xmlns:xliff='x'>", 1), end)
        yield Case("android", piece, head + "<![CDATA[", "]]>" + end)
    item = "<item quantity='one'>a</item>"
    yield Case("android", item, "<resources><plurals name='a'>", "</plurals></resources>")
    yield Case("android", "<string name='a'>a</string>\n", "<resources>", "</resources>")
    yield Case("android", "<string-array>", "<resources>", item, "</string-array>", "</resources>")


WORD_HEAD, WORD_END = f'<w:document xmlns:w="{W}"><w:body><w:p>', "</w:p></w:body></w:document>"


def _docx() -> Iterator[Case]:
    yield from _xml("docx", WORD_HEAD + "<w:r><w:t>", "</w:t></w:r>" + WORD_END)
    bold, run = f"<w:r>{BOLD}<w:t>b</w:t></w:r>", "<w:r><w:t>a</w:t></w:r>"
    fields = [FIELD.format(kind) for kind in ("begin", "separate", "end")]
    for piece in (
        run,
        bold,
        run + bold,
        "<w:r/>",
        "<w:bookmarkStart/>",
        *fields,
        "".join(fields),
        "</w:p><w:p>",
    ):
        yield Case("docx", piece, WORD_HEAD, WORD_END)
        yield Case("docx", piece, WORD_HEAD + run, run + WORD_END)
    for name in ("w:hyperlink", "w:ins", "w:p", "w:r", "w:sdt"):
        yield Case("docx", f"<{name}>", WORD_HEAD, run, f"</{name}>", WORD_END)
        yield Case("docx", f"<{name}>{run}", WORD_HEAD, "", f"</{name}>", WORD_END)


def _properties() -> Iterator[Case]:
    yield from _plain("properties")
    yield from _plain("properties", "a=")
    for piece in ("a=b\n", "a=b\\\n", "\\\n", "\\u0041", "''", "{0}", "{0,choice,", "a:", "# a\n", "!\n"):
        yield Case("properties", piece)
        yield Case("properties", piece, "a=", "x")


def _tables(name: str) -> Iterator[Case]:
    for piece in PIECES:
        yield Case(name, piece)
        yield Case(name, piece, "a,b\n")
        yield Case(name, piece, '"', '"')
        yield Case(name, piece.replace('"', '""'), 'a,b\n"', '",b\n')
        yield Case(name, piece + "\n", "a\n")
    for piece in ("a,b\n", '"a",', '"a"\n', ",", ";", '""', '"",', '"a""b"', "a\t", "a\tb\n"):
        yield Case(name, piece)
        yield Case(name, piece, "", "x")


def _text() -> Iterator[Case]:
    yield from _plain("text")
    line = "a line of some words that is as long as the others\n"
    yield Case("text", line)
    yield Case("text", "  " + line)
    yield Case("text", "word ", "", "\n" + line * 3)
    yield Case("text", "a" * 60 + " \r")
    for piece in BLANKS:
        yield Case("text", piece, "a" * 60 + "\n" + "b" * 50, "x\n" + "c" * 60)


def _sentences() -> Iterator[Case]:
    for piece in [*PIECES, *SENTENCE_PIECES]:
        yield Case(SENTENCES, piece)
    yield Case(SENTENCES, "<b>One. ", closing="</b> Two. ")
    yield Case(SENTENCES, "One. (", closing=") Two. ")
    yield Case(SENTENCES, "One. “", closing="” Two. ")


CASES: dict[str, Callable[[], Iterator[Case]]] = {
    SENTENCES: _sentences,
    "html": lambda: _html("html"),
    HTML_TEXT: lambda: _html(HTML_TEXT),
    "markdown": _markdown,
    "xliff": _xliff,
    "tmx": _tmx,
    "po": _po,
    "srt": lambda: _cues("srt", SRT_HEAD),
    "vtt": lambda: _cues("vtt", VTT_HEAD),
    "json": lambda: _json("json"),
    "arb": lambda: _json("arb"),
    "properties": _properties,
    "strings": _apple_strings,
    "android": _android,
    "docx": _docx,
    "csv": lambda: _tables("csv"),
    "tsv": lambda: _tables("tsv"),
    "text": _text,
}


class Reading(NamedTuple):
    """CPU seconds at the two sizes, and a description of the exception, if any."""

    small: float
    large: float
    error: str = ""

    @property
    def growth(self) -> float:
        return self.large / max(self.small, 1e-9)

    @property
    def is_linear(self) -> bool:
        return not self.error and (self.large < LEAST_SECONDS or self.growth <= MOST_GROWTH)


class OutOfTimeError(Exception):
    """A reading took longer than LIMIT_SECONDS."""


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTimeError in the `with` block after so many CPU seconds of this process."""

    def stop(*_: object) -> None:
        raise OutOfTimeError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def read_document(data: bytes, name: str, write: bool) -> None:
    """Read a document and, with `write`, write it again with every segment copied."""
    if name == SENTENCES:
        split_line(b" ".join(data.splitlines()), SEGMENT_BYTES, RULES, ("en", "ko"))
        return
    options = ReadOptions(
        pair=("en", "de") if name in ("tmx", "xliff") else None,
        column="1" if name in ("csv", "tsv") else None,
        encoding="utf-8" if name == HTML_TEXT else None,
    )
    try:
        document = read(data, "html" if name == HTML_TEXT else name, Path("document"), options)
        if write:
            translate(document, _copy_segments, limit=SEGMENT_BYTES, overwrite=True)
    except BytenmtError:
        pass  # an invalid document must be refused just as quickly


def _copy_segments(segments: Sequence[Segment]) -> list[Hypothesis]:
    return [Hypothesis(segment.text, 0.0, 0.0) for segment in segments]


def cpu_seconds(data: bytes, name: str, write: bool) -> float:
    """Return the CPU time of one reading; infinite where it was stopped."""
    begin = time.process_time()
    try:
        with cpu_limit(LIMIT_SECONDS):
            read_document(data, name, write)
    except OutOfTimeError:
        return float("inf")
    return time.process_time() - begin


def measure(case: Case, write: bool = False) -> Reading:
    """Return the CPU times of a case, measured up to three times while they do not look linear."""
    small, large = SMALL, LARGE
    reading = Reading(float("inf"), float("inf"))
    try:
        while (took := cpu_seconds(case.document(large), case.format, write)) < LEAST_SECONDS:
            if large >= LARGEST:
                return Reading(0.0, took)
            small, large = large, 4 * large
        for _ in range(3):
            least = min(reading.small, cpu_seconds(case.document(small), case.format, write))
            reading = Reading(least, min(reading.large, took))
            if reading.is_linear or reading.large == float("inf"):
                break
            took = cpu_seconds(case.document(large), case.format, write)
    except Exception as error:  # readers may only raise BytenmtError
        return Reading(0.0, 0.0, f"{type(error).__name__}: {str(error)[:60]}")
    return reading


def _part(text: str) -> tuple[int, int]:
    """Parse K/N, 1 <= K <= N."""
    first, _, step = text.partition("/")
    if not 1 <= int(first) <= int(step):
        raise ValueError(text)
    return int(first), int(step)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--format", action="append", choices=CASES, help="only these formats")
    parser.add_argument("--write", action="store_true", help="also segment and write the documents")
    parser.add_argument(
        "--part", type=_part, default=(1, 1), metavar="K/N", help="every N-th piece, from the K-th"
    )
    parser.add_argument(
        "--show", type=int, default=40, help="maximum number of failures to print for each format"
    )
    options = parser.parse_args()
    failed = False
    for name in options.format or CASES:
        begin = time.process_time()
        first, step = options.part
        cases = list(dict.fromkeys(CASES[name]()))[first - 1 :: step]
        readings = [(case, measure(case, options.write)) for case in cases]
        bad = [(case, one) for case, one in readings if not one.is_linear]
        slowest = max(one.large for _, one in readings)
        print(
            f"{name:12} {len(readings):4} pieces {len(bad):4} not linear, slowest {slowest:.2f} s for"
            f" {LARGE // 1000} kB, {time.process_time() - begin:.0f} s in all",
            flush=True,
        )
        for case, one in bad[: options.show]:
            print(
                f"  {case.name()}: {one.small:.3f} s, {one.large:.3f} s, growth {one.growth:.1f}", flush=True
            )
        failed = failed or bool(bad)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"peak memory {peak} MB")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
