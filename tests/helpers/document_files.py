"""Small documents of every format with all the tricks that its files have, and stand-ins for a translator."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bytenmt.documents.document import Document
from bytenmt.documents.formats import Wanted, read
from bytenmt.documents.segments import Segment
from bytenmt.documents.translation import Found

PAIR = Wanted(pair=("en", "de"))

XLIFF_1 = """<?xml version="1.0" encoding="UTF-8"?>
<!-- a comment with <source>no unit</source> -->
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
 <file original="a.txt" source-language='en' target-language="de" datatype="plaintext">
  <body>
   <trans-unit id="1">
    <source>A &amp; B &lt; C, <g id="1">bold <x id="2"/></g> &#8364;</source>
   </trans-unit>
   <trans-unit id="2" approved="yes" >
    <source>done</source>
    <target  state="final">fertig &quot;so&quot;</target></trans-unit>
   <trans-unit id="3"><source>begun</source><target state="needs-translation"/></trans-unit>
   <trans-unit id="4" translate="no"><source>never</source></trans-unit>
   <group translate="no"><trans-unit id="5"><source>nor this</source></trans-unit></group>
   <trans-unit id="6"><source><![CDATA[in <b>CDATA</b> & so]]></source>
    <alt-trans><source>x</source><target>y</target></alt-trans></trans-unit>
   <trans-unit id="7" xml:space="preserve"><source>two
lines</source><seg-source><mrk mtype="seg">two
lines</mrk></seg-source></trans-unit>
   <trans-unit id="8"><source>Say <ph id="1">&lt;br/&gt;</ph> to %s, {name}
      folded</source></trans-unit>
   <trans-unit id="9"><source>42</source></trans-unit>
   <trans-unit id="10"><source/></trans-unit>
  </body>
 </file>
</xliff>
"""
XLIFF_2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">
 <file id="f1"><unit id="u1">
   <originalData><data id="d1">&lt;br></data></originalData>
   <segment id="s1"><source>Hello <pc id="1">world</pc>!<ph id="2" dataRef="d1"/></source></segment>
   <ignorable><source> </source></ignorable>
   <segment id="s2" state="final"><source>done</source><target>fertig</target></segment>
   <segment state="initial" subState="x:y"><source>once more</source><target>einmal</target></segment>
  </unit><unit id="u2" translate="no"><segment><source>no</source></segment></unit></file>
</xliff>
"""
TMX = """<?xml version="1.0"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd" [<!ENTITY brand "Acme">]>
<tmx version="1.4">
  <header creationtool="x" creationtoolversion="1" segtype="sentence"
    o-tmf="x" adminlang="en" srclang="en" datatype="plaintext"/>
  <body>
    <tu tuid="a">
      <tuv xml:lang="en-US">
        <seg>&brand; says <bpt i="1">&lt;b&gt;</bpt>hello<ept i="1">&lt;/b&gt;</ept> &amp; %d</seg></tuv>
    </tu>
    <tu tuid="b"><tuv xml:lang="EN"><seg>one</seg></tuv><tuv xml:lang="de"><seg>eins</seg></tuv></tu>
    <tu tuid="c"><tuv xml:lang="en"><seg>two</seg></tuv><tuv xml:lang="de"><seg/></tuv></tu>
    <tu tuid="d"><tuv xml:lang="fr"><seg>trois</seg></tuv></tu>
  </body>
</tmx>
"""
PO = r"""# a comment
#, fuzzy
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#: file.c:1
#, c-format
msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""

#. for translators
msgctxt "menu"
msgid ""
"Long "
"text with \"quotes\",\ttabs \\ and\n"
"a second line\n"
msgstr ""

msgid "done"
msgstr "fertig"

#, fuzzy, c-format
#| msgid "Hello %s!"
msgid "Hello %s"
msgstr "Hallo %s!"

#~ msgid "old"
#~ msgstr "alt"
"""
SRT = """1
00:00:01,000 --> 00:00:02,500
<i>First line
of a sentence</i>

2
00:00:03,000 --> 00:00:04,000 X1:1 X2:2
{\\an8}- You?
- Me & you.


3
00:00:05,000 --> 00:00:06,000
42
"""
VTT = """WEBVTT - a title

STYLE
::cue { color: red }

NOTE no cue
--> here

intro
00:01.000 --> 00:02.000 align:start
<v Ann>Fish &amp;lt; chips &lt; <00:01.500><c.loud>all</c>

00:00:03.000 --> 00:00:04.000
Two lines
of text
"""
HTML = """<!DOCTYPE html>
<html lang=en><head><title>A &amp;lt; B</title><meta charset="utf-8">
<style>p > a { color: red }</style><script>if (a < b) "text";</script></head>
<body class='x'>
<!-- a comment --><p>Read <a href="x?a=1&amp;b=2">the  <b>manual</b></a>,
   please&nbsp;&copy; &lt;now&gt; <code>a < b</code>.<br>Next <img src=x alt="y"> line
<ul><li>one<li><b>two</b></ul>
<p translate="no">Brand <b>name</b></p><pre>as
 it is</pre>
<div>loose <p>text</p> behind</div> 3 &lt; 4 <b>open <p>closed</b>
</body></html>
"""
MARKDOWN = """---
title: front matter
---
# A *heading* #

A paragraph of **two
lines** with `code`, [a link](http://x.y/z "t") and <b>html</b>.

1. one
2. two \\* escaped
   goes on
   - [ ] nested, see [the label] and ![alt](pic.png)

> quoted
> twice

```python
not = "this"
```

    nor this

| a | b \\| c |
|---|:-:|
| `x|y` | text |

Setext
======
<div>
block of html
</div>

[the label]: http://x.y
***
Hard break\x20\x20
and the rest
"""
JSON = """{
  "title": "Hello \\u00e9 \\"you\\" {name}",
  "list": ["one", 2, null, "three\\nlines", {"deep": "yes <b>so</b>"}],
  "@title": {"description": "no text"},
  "msg": {"message": "the text", "description": "not it"},
  "count": "{n, plural, one {# file} other {# files}}",
  "empty": ""
}
"""
PROPERTIES = """# a comment
! another = one
title = Hello \\u00e9 \\
        goes on
key\\ with\\:signs: value\\ttab
args=It''s {0} of {1}
plain It's
empty=
path=C:\\\\dir
"""
CSV = 'id,text,translation\r\n1,"Hello, ""you""",\r\n2,plain,\r\n3,done,fertig\r\n\r\n4,"two\r\nlines",\r\n'
TSV = 'id\ttext\ttranslation\n1\tsay "hi"\t\n2\tdone\tfertig\n'
TEXT = """A title

This is a paragraph of text that is wrapped
at a certain width, as letters of old were
and as many files are.

one
  two
three
"""


class Sample(NamedTuple):
    name: str
    data: bytes
    wanted: Wanted = Wanted()

    def document(self) -> Document:
        return read(self.data, self.name, Path("sample"), self.wanted)


def _all() -> dict[str, Sample]:
    made = {
        "xliff 1.2": Sample("xliff", XLIFF_1.encode(), PAIR),
        "xliff 2": Sample("xliff", XLIFF_2.encode(), PAIR),
        "tmx": Sample("tmx", TMX.encode(), PAIR),
        "po": Sample("po", PO.encode()),
        "srt": Sample("srt", SRT.encode()),
        "vtt": Sample("vtt", VTT.encode()),
        "html": Sample("html", HTML.encode()),
        "markdown": Sample("markdown", MARKDOWN.encode()),
        "json": Sample("json", JSON.encode()),
        "properties": Sample("properties", PROPERTIES.encode()),
        "csv": Sample("csv", CSV.encode(), Wanted(column="text", into="translation")),
        "tsv": Sample("tsv", TSV.encode(), Wanted(column="2", into="3")),
        "text": Sample("text", TEXT.encode()),
    }
    for name, sample in list(made.items()):
        crlf = sample.data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        made[f"{name}, CRLF and a byte order mark"] = sample._replace(data=codecs.BOM_UTF8 + crlf)
        utf16 = sample.data.decode().replace("UTF-8", "UTF-16").encode("utf-16")
        made[f"{name}, UTF-16"] = sample._replace(data=utf16)
    latin = XLIFF_1.replace("UTF-8", "ISO-8859-1").replace("plain", "pl\xe4in").encode("latin-1")
    made["xliff, Latin-1"] = Sample("xliff", latin, PAIR)
    latin = HTML.replace("utf-8", "latin-1").replace("manual", "m\xe4nual").encode("latin-1")
    made["html, Latin-1"] = Sample("html", latin)
    made["po, Latin-1"] = Sample(
        "po", PO.replace("UTF-8", "latin-1").replace("file", "f\xefle").encode("latin-1")
    )
    made["properties, Latin-1"] = Sample("properties", PROPERTIES.replace("value", "\xe4").encode("latin-1"))
    made["text, not UTF-8"] = Sample("text", b"one\xff two\n\nthree")
    return made


SAMPLES = _all()


def loud(segment: Segment) -> bytes:
    """A translation that keeps all codes: all else in capitals."""
    pieces, rest = [], segment.text
    for code in segment.keep:
        before, _, rest = rest.partition(code)
        pieces += [before.decode().upper().encode(), code]
    return b"".join([*pieces, rest.decode().upper().encode()])


def asked_of(translate: object = loud, nats: float = 0.0):  # type: ignore[no-untyped-def]
    """What `translation.translate` asks, and a list of all segments that it asked for."""
    noted: list[Segment] = []

    def ask(segments: Sequence[Segment]) -> list[Found]:
        noted.extend(segments)
        return [Found(translate(segment), -nats) for segment in segments]  # type: ignore[operator]

    return ask, noted
