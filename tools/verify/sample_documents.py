"""Small sample documents of every format, and stand-ins for a translator, for tests and the fuzzer."""

from __future__ import annotations

import codecs
import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bytenmt.decoding.interface import Hypothesis
from bytenmt.documents.document import Document
from bytenmt.documents.formats import ReadOptions, read
from bytenmt.documents.segments import Segment
from bytenmt.documents.translation import TranslateSegments

PAIR = ReadOptions(pair=("en", "de"))

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
# As SDL Trados Studio writes a prepared file: segments with their states after every trans-unit,
# targets that are empty or missing, tags, a comment and structure that is not translated.
XLIFF_TRADOS = """<?xml version="1.0" encoding="utf-8"?>
<xliff xmlns:sdl="http://sdl.com/FileTypes/SdlXliff/1.0" xmlns="urn:oasis:names:tc:xliff:document:1.2" \
version="1.2" sdl:version="1.0">
<file original="C:\\manual.docx" datatype="x-sdlfilterframework2" source-language="en-US" \
target-language="de-DE">
<header><file-info xmlns="http://sdl.com/FileTypes/SdlXliff/1.0">\
<value key="SDL:FileId">a1</value></file-info>
<sdl:filetype-info><sdl:filetype-id>Word 2007 v 2.0.0.0</sdl:filetype-id></sdl:filetype-info>
<tag-defs xmlns="http://sdl.com/FileTypes/SdlXliff/1.0"><tag id="5"><bpt name="cf" word-end="false">\
&lt;cf bold="True"&gt;</bpt><ept name="cf" word-end="false">&lt;/cf&gt;</ept></tag></tag-defs></header>
<body>
<group><sdl:cxts><sdl:cxt id="1" /></sdl:cxts>
<trans-unit id="u1"><source>Open the file. <g id="5">Press</g> the key. Stop.</source><seg-source>\
<mrk mtype="seg" mid="1">Open the file.</mrk> <mrk mtype="seg" mid="2"><g id="5">Press</g> the key.</mrk> \
<mrk mtype="seg" mid="3"><mrk mtype="x-sdl-comment" sdl:cid="c1">Stop.</mrk></mrk></seg-source><target>\
<mrk mtype="seg" mid="1">Datei \u00f6ffnen.</mrk> <mrk mtype="seg" mid="2" /> <mrk mtype="seg" mid="3"></mrk>\
</target><sdl:seg-defs><sdl:seg id="1" conf="Translated" origin="interactive">\
<sdl:value key="SegmentHash">17</sdl:value></sdl:seg>\
<sdl:seg id="2" origin="tm" percent="71" /><sdl:seg id="3" /></sdl:seg-defs></trans-unit>
</group>
<trans-unit id="u2" translate="no"><source><x id="6" /></source></trans-unit>
<trans-unit id="u3"><source>No target. At all.</source><seg-source><mrk mtype="seg" mid="4">No target.</mrk> \
<mrk mtype="seg" mid="5">At all.</mrk></seg-source><sdl:seg-defs><sdl:seg id="4" /><sdl:seg id="5" />\
</sdl:seg-defs></trans-unit>
<trans-unit id="u4"><source>A draft. Locked.</source><seg-source><mrk mtype="seg" mid="6">A draft.</mrk> \
<mrk mtype="seg" mid="7">Locked.</mrk></seg-source><target><mrk mtype="seg" mid="6">Ein Entwurf.</mrk> \
<mrk mtype="seg" mid="7" /></target><sdl:seg-defs><sdl:seg id="6" conf="Draft" origin="mt" />\
<sdl:seg id="7" locked="true" /></sdl:seg-defs></trans-unit>
</body>
</file>
</xliff>
"""
# As Phrase TMS (Memsource) exports a bilingual file: tags as {1>…<1} in the text, empty targets, suggestions
# of translation memories in alt-trans, and the confirmed and locked state in attributes of its own namespace.
XLIFF_PHRASE = """<?xml version="1.0" encoding="UTF-8"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:m="http://www.memsource.com/mxlf/2.0" \
version="1.2" m:version="2.4" m:level="1">
 <file original="page.html" source-language="en" target-language="de" datatype="html" m:file-format="html" \
m:task-id="t1">
  <header></header>
  <body>
   <group id="0" m:para-id="0">
    <context-group><context context-type="x-key">title</context></context-group>
    <trans-unit id="t1:0" m:score="0.0" m:confirmed="0" m:locked="false" m:trans-origin="null" m:para-id="0" \
xml:space="preserve">
     <source>Read {1&gt;the manual&lt;1} &amp; {2} go.</source>
     <target></target>
     <alt-trans origin="machine-trans"><target></target></alt-trans>
     <alt-trans origin="memsource-tm"><target>Lies das</target></alt-trans>
     <m:tunit-metadata>
      <m:mark id="1"><m:type>a</m:type><m:content>&lt;a&gt;</m:content></m:mark>
     </m:tunit-metadata>
    </trans-unit>
    <trans-unit id="t1:1" m:confirmed="1" m:locked="false" m:trans-origin="null" xml:space="preserve">
     <source>done</source>
     <target>fertig</target>
    </trans-unit>
    <trans-unit id="t1:2" m:confirmed="0" m:locked="false" m:trans-origin="tm" xml:space="preserve">
     <source>proposed</source>
     <target>vorgeschlagen</target>
    </trans-unit>
    <trans-unit id="t1:3" m:confirmed="0" m:locked="true" m:trans-origin="null" xml:space="preserve">
     <source>locked</source>
     <target/>
    </trans-unit>
   </group>
  </body>
 </file>
</xliff>
"""
XLIFF_SEGMENTED = """<xliff version="1.2"><file source-language="en" target-language="de" original="a"><body>
 <trans-unit id="1"><source>One. Two.</source>
  <seg-source><g id="1"><mrk mtype="seg" mid="a">One.</mrk></g> \
<mrk mtype="seg" mid="b">Two.</mrk></seg-source>
 </trans-unit>
 <trans-unit id="2"><source>One. Two. Three.</source>
  <seg-source><mrk mtype="seg" mid="a">One.</mrk> <mrk mtype="seg" mid="b">Two.</mrk> \
<mrk mtype="seg" mid="c">Three.</mrk></seg-source>
  <target state="translated"><mrk mtype="seg" mid="b">Zwei.</mrk></target>
 </trans-unit>
 <trans-unit id="3"><source>One. Two.</source>
  <seg-source><mrk mtype="seg" mid="a">One.</mrk> <mrk mtype="seg" mid="b">Two.</mrk></seg-source>
  <target xml:lang="de"> <mrk mtype="other"/></target>
 </trans-unit>
 <trans-unit id="4"><source>One. Two.</source>
  <seg-source><mrk mtype="seg" mid="a">One.</mrk> <mrk mtype="seg" mid="b">Two.</mrk></seg-source>
  <target>Eins. Zwei.</target>
 </trans-unit>
</body></file></xliff>
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
<meta name="description" content="A page &amp;amp; 'more'"><input placeholder=Name title='say "x"'>
<!-- a comment --><p>Read <a href="x?a=1&amp;b=2">the  <b>manual</b></a>,
   please&nbsp;&copy; &lt;now&gt; <code>a < b</code>.<br>Next <img src=x alt="y"> line
<ul><li>one<li><b>two</b></ul>
<p translate="no">Brand <b>name</b></p><pre>as
 it is</pre>
<div>loose <p>text</p> behind</div> 3 &lt; 4 <b>open <p>closed</b>
</body></html>
"""
MARKDOWN = """---
title: front matter  # a comment
description: "of \\"two\\" kinds"
summary: 'it''s one'
date: 2020-01-01
---
# A *heading* #

A paragraph of **two
lines** with `code`, [a link](http://x.y/z "t") and <b>html</b>.

1. one
2. two \\* escaped
   goes on
   - [ ] nested, see [the label] and ![alt](pic.png)

> quoted
> twice, ![a *picture*](a.png) and [![one](b.png)](c)

![alone](b.png "t") ![same][]

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
STRINGS = """/* A comment; "no" = "text"; */
"greeting" = "Hello %1$@, \\"you\\"\\n and \\U00e9";
// "old" = "gone";
bare.key = Bare ;
"shorthand";
"empty" = "";
"two
lines" = "it's /* not */ a // comment
of two lines" /* behind */ ;
"""
ANDROID = r"""<?xml version="1.0" encoding="UTF-8"?>
<!-- <string name="no">unit</string> -->
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
    <string name="app" translatable="false">App</string>
    <string name="apostrophe">Don\'t say \"hi\" to %1$s\n  and
        more \u00e9</string>
    <string name="quoted">"  It's  "</string>
    <string name="tags">Hi <b>bold</b> <xliff:g id="n">%d</xliff:g> &lt;i>z&lt;/i> &amp; \@me</string>
    <string name="html"><![CDATA[Read <a href="x">the manual</a>&nbsp;now<br>it\'s]]></string>
    <string name="cdata"><![CDATA[Fish & chips]]></string>
    <string name="reference">@string/app</string> <string name="empty"/>
    <plurals name="files"><item quantity="one">%d file</item>
        <item quantity="other">%d files</item></plurals>
    <string-array name="list"><item>one</item><item>@string/app</item><item>\?two</item></string-array>
    <integer-array name="numbers"><item>3</item></integer-array>
</resources>
"""
W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
BOLD = "<w:rPr><w:b/></w:rPr>"
FIELD = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
WORD_PARTS = {
    "word/document.xml": f"""<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<w:document xmlns:w="{W}" \
xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><w:body>\
<w:p w:rsidR="1"><w:pPr><w:jc w:val="left"/></w:pPr><w:bookmarkStart w:id="0" w:name="a"/>\
<w:r w:rsidR="2"><w:t>One sen</w:t></w:r><w:proofErr w:type="spellStart"/>\
<w:r><w:rPr><w:noProof/></w:rPr><w:t xml:space="preserve">tence with </w:t></w:r>\
<w:r>{BOLD}<w:t>bold</w:t></w:r><w:r><w:t xml:space="preserve"> &amp; &lt;text&gt;</w:t>\
<w:footnoteReference w:id="2"/></w:r><w:bookmarkEnd w:id="0"/></w:p>
<w:p><w:hyperlink r:id="rId9"><w:r><w:rPr><w:rStyle w:val="Hyperlink"/></w:rPr><w:t>a link</w:t></w:r>\
</w:hyperlink>\
<w:r><w:t xml:space="preserve"> and page </w:t></w:r>{FIELD.format("begin")}\
<w:r><w:instrText>PAGE</w:instrText></w:r>\
{FIELD.format("separate")}<w:r><w:t>7</w:t></w:r>{FIELD.format("end")}\
<w:r><w:tab/><w:t>tab</w:t><w:br/><w:t>line</w:t></w:r></w:p>
<w:tbl><w:tr><w:tc><w:p><w:r><w:t>cell</w:t></w:r></w:p></w:tc></w:tr></w:tbl>\
<w:p><w:r><w:t>before</w:t></w:r><w:r><w:pict><w:txbxContent><w:p><w:r><w:t>a box</w:t></w:r></w:p>\
</w:txbxContent></w:pict></w:r>\
<w:r><w:t>behind</w:t></w:r></w:p><w:p/></w:body></w:document>""",
    "word/header1.xml": f'<w:hdr xmlns:w="{W}"><w:p><w:r><w:t>head</w:t></w:r></w:p></w:hdr>',
    "word/footnotes.xml": f'<w:footnotes xmlns:w="{W}"><w:footnote w:id="2"><w:p><w:r><w:footnoteRef/></w:r>'
    "<w:r><w:t> a note</w:t></w:r></w:p></w:footnote></w:footnotes>",
}


def word_archive(parts: Mapping[str, str | bytes] = WORD_PARTS) -> bytes:
    """Return a .docx file with these parts and an unrelated binary part."""
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml"
    kinds = {
        "word/document.xml": "document.main",
        "word/header1.xml": "header",
        "word/footnotes.xml": "footnotes",
    }
    types = "".join(
        f'<Override PartName="/{name}" ContentType="{kind}.{kinds.get(name, "document.main")}+xml"/>'
        for name in parts
    )
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    other = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Default Extension="xml" ContentType="application/xml"/>{types}</Types>',
        "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'<Relationship Id="rId1" Type="{relation}" Target="word/document.xml"/></Relationships>',
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {**other, **parts}.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), text, zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo("word/media/a.bin", (2020, 1, 1, 0, 0, 0)), bytes(range(256)))
    return file.getvalue()


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
    """A document.

    name: its format, of documents.formats.FORMATS; options: the options that it is read with.
    """

    name: str
    data: bytes
    options: ReadOptions = ReadOptions()

    def document(self) -> Document:
        """Read the document."""
        return read(self.data, self.name, Path("sample"), self.options)


def _all_samples() -> dict[str, Sample]:
    """Build the samples of all formats, also with CRLF line ends, a byte order mark and other encodings."""
    samples = {
        "xliff 1.2": Sample("xliff", XLIFF_1.encode(), PAIR),
        "xliff 2": Sample("xliff", XLIFF_2.encode(), PAIR),
        "xliff, Trados": Sample("xliff", XLIFF_TRADOS.encode()),
        "xliff, Phrase": Sample("xliff", XLIFF_PHRASE.encode(), PAIR),
        "xliff, segmented": Sample("xliff", XLIFF_SEGMENTED.encode(), PAIR),
        "tmx": Sample("tmx", TMX.encode(), PAIR),
        "po": Sample("po", PO.encode()),
        "srt": Sample("srt", SRT.encode()),
        "vtt": Sample("vtt", VTT.encode()),
        "html": Sample("html", HTML.encode()),
        "markdown": Sample("markdown", MARKDOWN.encode()),
        "json": Sample("json", JSON.encode()),
        "arb": Sample("arb", JSON.replace("{", '{"@@locale": "en", ', 1).encode(), PAIR),
        "properties": Sample("properties", PROPERTIES.encode()),
        "strings": Sample("strings", STRINGS.encode()),
        "android": Sample("android", ANDROID.encode()),
        "csv": Sample("csv", CSV.encode(), ReadOptions(column="text", into="translation")),
        "tsv": Sample("tsv", TSV.encode(), ReadOptions(column="2", into="3")),
        "text": Sample("text", TEXT.encode()),
    }
    for name, sample in list(samples.items()):
        crlf = sample.data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        samples[f"{name}, CRLF and a byte order mark"] = sample._replace(data=codecs.BOM_UTF8 + crlf)
        utf16 = sample.data.decode().replace("UTF-8", "UTF-16").replace("utf-8", "utf-16").encode("utf-16")
        samples[f"{name}, UTF-16"] = sample._replace(data=utf16)
    latin = XLIFF_1.replace("UTF-8", "ISO-8859-1").replace("plain", "pl\xe4in").encode("latin-1")
    samples["xliff, Latin-1"] = Sample("xliff", latin, PAIR)
    latin = HTML.replace("utf-8", "latin-1").replace("manual", "m\xe4nual").encode("latin-1")
    samples["html, Latin-1"] = Sample("html", latin)
    samples["po, Latin-1"] = Sample(
        "po", PO.replace("UTF-8", "latin-1").replace("file", "f\xefle").encode("latin-1")
    )
    samples["properties, Latin-1"] = Sample(
        "properties", PROPERTIES.replace("value", "\xe4").encode("latin-1")
    )
    samples["docx"] = Sample("docx", word_archive())
    samples["text, not UTF-8"] = Sample("text", b"one\xff two\n\nthree")
    return samples


SAMPLES = _all_samples()


def translate_to_upper_case(segment: Segment) -> bytes:
    """Translate a segment to upper case, with its inline tags unchanged."""
    pieces, rest = [], segment.text
    for code in segment.keep:
        before, _, rest = rest.partition(code)
        pieces += [before.decode().upper().encode(), code]
    return b"".join([*pieces, rest.decode().upper().encode()])


def recording_translator(
    translate: Callable[[Segment], bytes] = translate_to_upper_case, flags: tuple[str, ...] = ()
) -> tuple[TranslateSegments, list[Segment]]:
    """Return a stand-in for a translator, and the list to which it appends every segment.

    flags: of each translation.
    """
    noted: list[Segment] = []

    def ask(segments: Sequence[Segment]) -> list[Hypothesis]:
        noted.extend(segments)
        return [Hypothesis(translate(segment), 0.0, 0.0, flags=flags) for segment in segments]

    return ask, noted
