"""The classes of spans that a translation keeps: their patterns, with sample texts.

Letters of scripts that do without spaces (Hangul, kana, Han, Thai, …) end a span: in Korean a
particle follows a span with nothing between them. Therefore the patterns have their own class of
letters, LETTERS, in place of \\w.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

# The digest of the patterns of each version, see digest_of_patterns. A change of the patterns is a
# new version: append its digest.
PATTERNS_DIGESTS = (
    "4cbb5520173b7c44",
    "76c4467d07714262",
    "4959ba21ab84e67f",
    "74b1538c08e45f5d",
)
# Version of the patterns; a run that learns sentinels is not resumed with another one. Trained
# models work with it, since they see no more of a span than its sentinel; but `--keep` keeps all
# classes by default, so that their translations change.
PATTERNS_VERSION = len(PATTERNS_DIGESTS)


class SpanClass(NamedTuple):
    """A class of spans of a text that a translation keeps unchanged, such as web addresses."""

    name: str  # as the option --keep takes it
    # The spans that it keeps, for the table of docs/constraints.md.
    description: str
    # A cheap regular expression that matches in every text in which one of the patterns does.
    trigger: str
    # Regular expressions. Possessive quantifiers (*+, ++, ?+) keep the time of a search
    # proportional to the text.
    patterns: tuple[str, ...]
    # Sample texts, at least two; the spans that all classes together keep stand in ⟦ and ⟧.
    kept: tuple[str, ...]
    # Sample texts in which no class keeps anything.
    not_kept: tuple[str, ...]


# Letters, digits and _ of scripts with spaces between words: the inside of a character class.
LETTERS = (
    r"0-9A-Za-z_ª²³µ¹º¼-¾\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u0dff\u0f00-\u0fff\u10a0-\u10ff"
    r"\u1200-\u177f\u1800-\u1fff"
)
_L = LETTERS
_BEGIN = rf"(?<![{_L}])"  # no letter before
_END = rf"(?![{_L}])"  # no letter behind
# The same, and no hyphen but that of a German compound, as in "README.md-Datei".
_NAME_END = rf"(?![{_L}]|-(?![A-ZÄÖÜ][a-zäöüß]))"
_UMLAUTS = r"\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f"
# A quotation mark, or another opening sign, that does not close what stands before it. The marks
# themselves do not tell: “ opens in English and closes in German.
_QUOTES = r"\"'‘’“”„«»‹›"
_NOT_CLOSED = rf"(?<![^\s(\[|/,<=:>{_QUOTES}][{_QUOTES}])"

_NAME = rf"[A-Za-z][{_L}:.-]*+"
_VALUE = r"""(?:"[^"<]*+"|'[^'<]*+'|[^\s"'<>=`]++)"""
_ATTRIBUTES = rf"(?:\s++[A-Za-z_:@][{_L}:.-]*+(?:\s*+=\s*+{_VALUE})?+)*+"
_HOST = rf"A-Za-z0-9{_UMLAUTS}"
_DOMAIN = rf"(?:[{_HOST}](?:[{_HOST}-]*[{_HOST}])?\.)+"
_ENDS = r"(?:com|org|net|edu|gov|info|io|dev|de|at|ch|eu|uk|fr|kr|jp)"
# Punctuation at the end is not part of an address, but that of &gt; is.
_PATH = rf"[{_L}.~:/?#@!$&'()*+,;=%\[\]-]*(?:[{_L}/~#$&*+=%@-]|(?<=&[lg]t);|(?<=&amp);)"
_FILE_TYPES = (
    r"(?:js|mjs|jsx|ts|tsx|py|md|rst|txt|json|xml|html?|css|scss|cpp|hpp|cc|cs|java|rb|go|rs|php|pl"
    r"|sh|bat|ps1|exe|dll|so|zip|gz|bz2|xz|tar|tgz|jpe?g|png|gif|svg|ico|webp|pdf|docx?|odt|ods|odp"
    r"|xlsx?|pptx?|csv|tsv|toml|ya?ml|ini|conf|cfg|log|sql|db|sqlite|bak|iso|deb|rpm|jar|war|mp3"
    r"|mp4|avi|mkv|wav|ogg|flac|po|mo|tmx|xlf|lock|env|service|plist|strings|vue|ipynb"
    # no abbreviations such as d.h. and Dr.h.c.
    rf"|MF|(?<=[{_L}][{_L}]\.)[ch])"
)
_FILE_TYPE = rf"\.{_FILE_TYPES}{_NAME_END}(?!\.[{_L}])"
_BRACES = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*+\})*+\})*+\}"
_FLAGS_AND_WIDTH = r"[-#0+',]*+(?:\d++|\*)?+(?:\.(?:\d++|\*))?+(?:hh|h|ll|l|q|j|z|t|L)?"
# neither "30 %ige" nor "%-Zeichen"
_NO_PERCENT_SIGN = rf"(?!(?<=\d[ \u00a0\u202f]%)[a-zäöü]{{2}}|-[A-Za-z][{_L}])"
_CONVERSION = (
    rf"(?<!\d)%{_NO_PERCENT_SIGN}(?:\([^()\s]{{1,60}}\))?+(?:\d++\$)?+{_FLAGS_AND_WIDTH}[A-Za-z@]"
)
# Words in brackets that are remarks, no names of placeholders.
_REMARKS = (
    r"(?:optional|default|required|recommended|deprecated|experimental|legacy|new|old|empty|none"
    r"|unknown|unsaved|imported|untitled|options?|and|or|not|here|link|these|click|documentation"
    r"|instructions|sic|hier|oder|und|nicht|leer|neu|alt|fremd|standard|veraltet|empfohlen"
    r"|erforderlich|unbekannt|importiert|ungespeichert|optionen)"
)
_MODIFIER = (
    r"(?:Ctrl|Control|Alt|AltGr|Shift|Cmd|Command|Meta|Super|Win|Option|Strg|Umschalt|⌘|⌥|⇧)"
)
_KEY = (
    r"(?:F\d{1,2}|Enter|Return|Tab|Esc(?:ape)?|Del(?:ete)?|Space|Home|End|Page ?(?:Up|Down)|PgUp"
    r"|PgDn|Up|Down|Left|Right|Backspace|Insert|Ins|Plus|Minus|Click|[A-Z0-9](?![A-Za-z0-9])"
    r"|[+\-,./\\](?![A-Za-z]))(?! [Cc]lick)"
)
_KEYS = rf"(?:{_MODIFIER} ?[+-] ?){{1,30}}+{_KEY}"
# Arrows, shapes, emoji, ℹ and currencies.
_SIGNS = (
    "\u2139\u2190-\u2bff\u3010\u3011\ufe0f\u200d\U0001f000-\U0001faff\U000e0020-\U000e007f©®™€£¥₩₹"
)
_CURRENCIES = (
    r"(?:AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|HUF|INR|JPY|KRW|LCY|MXN|NOK|NZD|PLN|RUB|SEK|SGD"
    r"|TRY|USD|ZAR)"
)
_ABBREVIATIONS = r"(?:usw|usf|etc|bzw|ggf|evtl|inkl|exkl|zzgl|bzgl|vgl|resp|max|min)"

SPAN_CLASSES: tuple[SpanClass, ...] = (
    SpanClass(
        "tags",
        '`<b>`, `</b>`, `<br/>`, `<a href="…">`, comments, and with numbers `<1>`, `</1>`',
        r"<",
        (
            rf"</?{_NAME}{_ATTRIBUTES}\s*+/?>",  # <b>, <a href="…">, <x id="1"/>, </b>
            r"</?>|</?\d{1,3}\s*+/?>|<\?>",  # <>…</> and <1>…</1> of React, <?> of LibreOffice
            r"<!--(?:[^<>-]|-(?!->))*+-->|<%[^<>%]*+%>",
        ),
        (
            '⟦<x START_LINK/>⟧here⟦<x CLOSE_LINK/>⟧, ⟦<g id="1">⟧a⟦</g>⟧, ⟦<bx id="1" rid="1"/>⟧b',
            '⟦<b>⟧bold⟦</b>⟧, ⟦<br/>⟧, ⟦<br />⟧, ⟦<img src=x alt="a b">⟧',
            "⟦<a href=\"a?b=1&c='2'\">⟧x⟦</a>⟧",
            "⟦<>⟧a⟦</>⟧, ⟦<1>⟧b⟦</1>⟧, ⟦<?>⟧, ⟦<%= name %>⟧, ⟦<!-- a note -->⟧ here",
        ),
        ("x < y > z", "a <- b -> c"),
    ),
    SpanClass(
        "placeholders",
        "`%s`, `%1$s`, `%(name)d`, `{0}`, `{name}`, `{{name}}`, `${name}`, `$NAME`, `$1`,"
        " `$t(menu.open)`, `%NAME%`, `[X7X]`, `` `code` ``",
        r"[{$%\[`\\#~]|\*\||__|xx\d|:[a-z0-9_+-]|@:",
        (
            # {{name}}, {name}, {0}, { $count }, ${name}
            r"\{\{\{?[^{}]*+\}\}\}?|[$#%@]?\{[^{}]{0,80}+\}",
            # ICU messages
            rf"\{{\s*+[{_L}$]++\s*+,\s*+(?:plural|select|selectordinal)\s*+,"
            rf"(?:[^{{}}]|{_BRACES})*+\}}",
            # Vue's $t(…), $(name), $name, $NAME$
            rf"\$t\((?:[^(){{}}]|{_BRACES})*+\)|\$\([{_L}]++\)(?:/[{_L}.+@-]*[{_L}@+-])*+",
            rf"\$(?:[A-Za-z0-9_@]++\$){{1,9}}+{_END}|\$[A-Za-z_][{_L}]*+",
            # $1 of MediaWiki and regular expressions, but not $1.50
            rf"\$\d(?![{_L}]|[.,]\d)",
            # %s, %1$s, %(name)d, %-5.2f; %H:%M, %Y-%m-%d
            rf"{_CONVERSION}(?:[:/.-]{_CONVERSION})*+",
            # %1 and %L1 of Qt, %0%, %name%, %PRODUCTNAME
            r"(?<!\d)%\d{1,2}%(?!\d)|(?<!\d)%L?\d{1,2}(?!\d)|%%|%[A-Za-z_]{2,40}%"
            r"|(?<!\d)%[A-Z][A-Z_]+",
            # [[name]], [name], [0], [X7X]
            rf"\[\[[{_L} .-]{{1,40}}\]\]|\[(?!{_REMARKS}\])[a-z][a-z0-9_.-]*+\]|\[\d{{1,3}}\]"
            r"|\[[A-Z]\d++[A-Z]\]",
            # *|NAME|*, ##name##, __name__, xx0xx
            rf"\*\|[{_L}]++\|\*|##[{_L}]++##|__(?!_)[{_L}]+?__|(?<!\w)~[{_L}]++~(?!\w)",
            rf"{_BEGIN}xx\d++xx{_END}",
            # :name of Laravel, :smile:, @:key of Vue
            rf"(?<![\w:/]):[a-z][a-z0-9_]++(?![{_L}:])|(?<!\w):[a-z0-9_+-]{{2,40}}:{_END}",
            rf"@:[{_L}.]*[{_L}]",
            # `option`, but no `quotes' as of GNU's programs; the answers [y/N] of a question
            r"``[^`]{1,120}+``|`(?![^`'\n]{1,60}'(?!\w))[^`]{1,120}+`|\[[A-Za-z](?:/[A-Za-z])+\]",
            # a line break as \n, two characters, but not the folder \new
            rf"\\[abfrtv0](?![A-Za-z])|\\n(?![a-z])|(?<![{_L}.-])\\n",
        ),
        (
            "⟦{{name}}⟧ ⟦{{{raw}}}⟧ ⟦{name}⟧ ⟦{0}⟧ ⟦{ $count }⟧ ⟦${name}⟧ ⟦$name⟧",
            "⟦$(name)⟧ ⟦#{x}⟧ ⟦%{y}⟧",
            "⟦%s⟧ ⟦%1$s⟧ ⟦%(name)d⟧ ⟦%-5.2f⟧ ⟦%d⟧⟦%%⟧ ⟦%ld⟧ ⟦%@⟧",
            "⟦%1⟧ ⟦%L1⟧ ⟦%name%⟧ ⟦%PRODUCTNAME⟧ ⟦%0%⟧",
            "⟦{count, plural, one {# file} other {# files in {folder}}}⟧ | is it ⟦{name}⟧?",
            "⟦__name__⟧, ⟦[name]⟧, ⟦[[name]]⟧, ⟦[0]⟧, ⟦[X7X]⟧, ⟦*|NAME|*⟧, ⟦##name##⟧, ⟦xx0xx⟧",
            'Hello ⟦:name⟧! ⟦:smile:⟧ ⟦@:key⟧ and ⟦$t(key, {"count": {{n}} })⟧ and ⟦$t(num, {…})⟧',
            "⟦%H:%M⟧ on ⟦%Y-%m-%d⟧ | ⟦$1⟧ sent ⟦$2⟧ to ⟦$3⟧ | ⟦$NAME$⟧ here",
            "Use ⟦`option`⟧ or ⟦``code``⟧. One line⟦\\n⟧ 2⟦\\n⟧Three, sure? ⟦[y/N]⟧",
        ),
        (
            "50%ige 100% 50 % of it, eine 30 %ige Lösung, das %-Zeichen",
            "[optional], [default], [required], [Sic] and [00:12] or [1:02:03]",
            "user `a b' and the file dir\\name, $10 or $1,200",
        ),
    ),
    SpanClass(
        "urls",
        "addresses on the web, with or without `https://`, and queries such as `?page=2`",
        r"://|www\.|\.[a-z]|\?[A-Za-z_]",
        (
            rf"[A-Za-z][A-Za-z0-9+.-]{{1,20}}://(?:{_PATH})?",
            rf"{_BEGIN}www\.{_DOMAIN}[A-Za-z]{{2,}}(?:/{_PATH})?",
            rf"(?<![{_L}@./-]){_DOMAIN}{_ENDS}{_NAME_END}(?:/{_PATH})?",
            rf"(?<![{_L}?!])\?[A-Za-z_][A-Za-z0-9_.-]*+=(?:{_PATH})?",
        ),
        (
            "⟦https://example.org/a?b=1#c⟧. See ⟦www.example.org/x⟧, ⟦example.com/y⟧,"
            " (⟦http://a.b/c⟧)",
            "Begin with ⟦svn://⟧ or ⟦?format=&lt;X&gt;⟧, ⟦https://a.org/?x=&lt;Y&gt;⟧ too",
            "⟦www.müller.de⟧ und ⟦bücher.de/neu⟧",
            "⟦https://example.com/a⟧에서 내려받고 ⟦www.example.org⟧를 보세요",
        ),
        ("e.g. i.e. a.m. z.B. No.5 Mr.Smith", "Was?=nichts, d.h. usw.usf."),
    ),
    SpanClass(
        "emails",
        "addresses of e-mail",
        r"@",
        (rf"(?:mailto:)?(?<![{_L}.+-])[{_L}][{_L}.+-]*+@{_DOMAIN}[A-Za-z]{{2,}}",),
        (
            '⟦<a href="mailto:a@b.org">⟧⟦a@b.org⟧⟦</a>⟧',
            "⟦mailto:info@example.org⟧ or ⟦info@example.org⟧.",
            "Schreiben Sie an ⟦info@müller.de⟧!",
            "⟦user@example.com⟧으로 보내십시오",
        ),
        ("me@x, @user, #tag", "bei 5 @ 3"),
    ),
    SpanClass(
        "paths",
        "`/etc/hosts`, `C:\\Windows`, `README.md`, `*.txt`",
        r"[/\\]|\.[a-zM]",
        (
            # /etc/hosts, ~/.config, ./a
            rf"(?<![\w/.<%°…€£¥₩₹)-]){_NOT_CLOSED}(?:~|\.{{1,2}})?/[{_L}.+@-]*[{_L}@+-]"
            rf"(?:/[{_L}.+@-]*[{_L}@+-])*+/?",
            # C:\Windows, \\server\share
            rf"{_BEGIN}[A-Za-z]:\\(?:[{_L}.\\+@-]*[{_L}\\])?|{_BEGIN}\\\\[{_L}.\\+@$-]++",
            # README.md, src/main.c; what follows - or @ in a word is tried for a limited length
            rf"(?<![{_L}/.+@-])(?:[{_L}.+@-]++/)*[{_L}+@-]+(?:\.[{_L}+-]+)*{_FILE_TYPE}",
            rf"(?<=[{_L}/.][+@-])(?:[{_L}.+@-]{{1,255}}+/){{0,16}}[{_L}+@-]{{1,255}}"
            rf"(?:\.[{_L}+-]{{1,255}}){{0,16}}{_FILE_TYPE}",
            # .rc, *.txt
            rf"(?<![{_L}.])\.[a-z](?:[{_L}]|-(?![A-ZÄÖÜ][a-zäöüß])){{2,}}+(?:\.[{_L}-]++)*+",
            rf"(?<![{_L}.])\*\.[a-z0-9]{{1,5}}{_END}",
        ),
        (
            "⟦node.js⟧ and ⟦README.md⟧, ⟦src/main.c⟧, ⟦.bashrc⟧, ⟦*.txt⟧, ⟦archive.tar.gz⟧",
            "⟦/etc/hosts⟧ ⟦~/.config⟧ ⟦./a⟧ ⟦C:\\Windows\\x.dll⟧ ⟦\\\\server\\share⟧",
            "\"⟦/tmp⟧\" '⟦/a/b⟧', die ⟦README.md⟧-Datei und ⟦.ipa⟧-Export",
            "⟦META-INF/MANIFEST.MF⟧ in ⟦$(HOME)/bin⟧",
            "5 ⟦€⟧/Monat, 20°/Tag",
            "⟦config.yaml⟧에서 ⟦/etc/hosts⟧를 읽습니다",
        ),
        (
            "and/or he/she 24/7 1/2 km/h, 5 EUR/Monat, Datei(en)/Ordner",
            "ein-/ausblenden und „An“/Aus, d.h. a.c. Dr.h.c.",
            "켜기/끄기, 한국어/English",
        ),
    ),
    SpanClass(
        "options",
        "`--help`, `-o FILE`, `-Dkey.name=value`",
        r"(?<!\w)-[A-Za-z]",
        (
            # --help, -o FILE, --size <n>, --colour=never; not the second part of a German compound,
            # as in "Kosten- und -zeiten", and after a slash no ending, as in "Mitarbeiter/-innen"
            rf"(?<![^\s({_QUOTES}\[|/,<=:])(?<!::){_NOT_CLOSED}"
            r"(?!(?:(?<=und )|(?<=oder )|(?<=bis )|(?<=sowie )|(?<=bzw\. ))"
            r"-(?:[A-Z]?[a-z]{2,}|[A-Z]{2,}s?)(?![\w=]))"
            r"(?!(?<=[^\W\d_]/)-[A-Z]?[a-z]{2,}(?![\w=]))"
            rf"--?[A-Za-z][A-Za-z0-9_-]*+(?:\.[A-Za-z][A-Za-z0-9_-]*+)*+{_END}"
            rf"(?:[ =](?:[A-Z][A-Z_-]*[A-Z](?![{_L}-])|<[{_L}-]{{1,30}}>)|=[{_L}./:-]*[{_L}])?",
        ),
        (
            "See ⟦--help⟧, ⟦-o FILE⟧, ⟦--size <n>⟧, ⟦--colour=never⟧, ⟦-x=1⟧, ⟦-Dx.y=z⟧",
            '(⟦-a⟧) or "⟦-b⟧", “⟦-c⟧”, „⟦-d⟧“ und ⟦-e⟧, ⟦--long⟧/⟦-s⟧',
            "옵션 ⟦--help⟧를 사용하십시오.",
        ),
        (
            "„config“-Datei, \"config\"-Datei, »config«-Datei, 'x'-Achse",
            "Mitarbeiter/-innen, Kosten- und -zeiten, Datum oder -uhrzeit, -größe",
            "von Sonnenaufgang bis -untergang",
            "well-known -- yes – no | 3-4, 10-20",
        ),
    ),
    SpanClass(
        "keys",
        "`Ctrl+Shift+P`, `F5`, and the `&` of `&File`",
        r"[A-Za-z⌘⌥⇧] ?[+-] ?[A-Z0-9+,./\\-]|F\d|&",
        (
            rf"(?<![A-Za-z]){_KEYS}(?![a-zäöüß])|(?:\\t|\t){_KEYS}",
            rf"(?:\\t|\t)F\d{{1,2}}{_END}|{_BEGIN}F\d{{1,2}}{_END}",
            # the mark of a menu's letter, &File
            r"(?<![\w&#])&(?=[^\W\d_])",
        ),
        (
            "⟦Ctrl+C⟧, ⟦Ctrl + Shift + P⟧, ⟦Alt+F4⟧, ⟦⌘+S⟧, ⟦Strg+C⟧, ⟦Ctrl+,⟧",
            "⟦&⟧Quit⟦\\tCtrl+Q⟧",
            "⟦&⟧Quit⟦\tCtrl+Q⟧ and ⟦&⟧Öffnen, 파일(⟦&⟧F)",
            "⟦<kbd>⟧Ctrl⟦</kbd>⟧+⟦<kbd>⟧C⟦</kbd>⟧",
            "⟦F5⟧를 누르거나 ⟦Ctrl+C⟧로 복사하십시오",
        ),
        ("AT&T, R&D, Smith & Sons, #&1, T&Ms and TM&Xs, Strg-/Meta-Taste", "F-16 UTF-8 C++ C#"),
    ),
    SpanClass(
        "codes",
        "`MP3`, `0xFF`, UUIDs, versions such as `1.2.3` and `TLS 1.2`, `snake_case`, `name()`",
        r"\d[A-Z]|[A-Z]\d|0x|[0-9a-f]{7}|[0-9A-Fa-f]{8}-|\d\.\d|[A-Z][A-Z][ /]\d|\.[a-z_]|_"
        r"|\(\)|<su",
        (
            # A1, MP3, H264
            rf"(?<![{_L}.])(?:[A-Z](?=[A-Z0-9]*\d)|\d+[A-Z][A-Z0-9])[A-Z0-9]*+(?:-[A-Z0-9]+)*"
            rf"{_END}",
            # hexadecimal
            rf"{_BEGIN}0x[0-9A-Fa-f]++{_END}",
            rf"{_BEGIN}(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{{7,64}}{_END}",
            # UUID
            rf"{_BEGIN}[0-9A-Fa-f]{{8}}(?:-[0-9A-Fa-f]{{4}}){{3}}-[0-9A-Fa-f]{{12}}{_END}",
            # versions, IPv4 addresses; but not 1.000.000, a German number
            rf"(?<![{_L}.])(?!\d{{1,3}}(?:\.\d{{3}}){{2}}(?:\.000)*+(?![{_L}.-]|,?\d))"
            r"(?!\d{1,3}(?:\.\d{3}){2}(?:\.000)*+(?:,\d|[.-]?(?![0-9A-Za-z.])))"
            r"v?\d++(?:\.\d++){2,}(?:[-+.]?[A-Za-z0-9]++)*+",
            # XLIFF 1.2, HTTP/1.1, not USD 1.20
            rf"{_BEGIN}(?!{_CURRENCIES} )[A-Z]{{2,8}}[ /]\d{{1,2}}\.\d{{1,3}}(?![{_L}]|[.,]\d| ?%)",
            # snake_case, but not Mitarbeiter_innen
            rf"(?<![{_L}.])(?![A-Z][a-z]++_in(?:nen[a-z]*+)?{_END})"
            rf"[A-Za-z0-9]++(?:_[A-Za-z0-9]++)++(?:\(\))?+{_END}",
            # name(), module.name()
            rf"(?<![{_L}.])[A-Za-z_][{_L}]++(?:\.[{_L}]++)*+\(\)",
            # module.name, but not usw.usf.
            rf"(?<![{_L}.@-])(?!{_ABBREVIATIONS}\.)[a-z][{_L}]++(?:\.[a-z_][{_L}]++)++{_END}",
            # a name in capitals before a mark above or below the line
            rf"{_BEGIN}[A-Z][A-Z0-9]++(?=<su[bp][ >])",
        ),
        (
            "⟦A1⟧ and ⟦MP3⟧, ⟦H264⟧, ⟦F1⟧-Taste, ⟦0x7fff⟧, ⟦deadbeef1⟧,"
            " ⟦123e4567-e89b-12d3-a456-426614174000⟧",
            "⟦3.2.1⟧ | ⟦v1.2.3⟧ | ⟦1.2.3-rc1⟧ | ⟦192.168.0.1⟧ | § 5",
            "⟦12.03.2024⟧ | ⟦10.100.200.100⟧",
            "⟦snake_case⟧, ⟦foo_bar()⟧, ⟦name()⟧, ⟦os.path.join()⟧, ⟦module.name⟧",
            "⟦XLIFF 1.2⟧ and ⟦TLS 1.3⟧, ⟦HTTP/1.1⟧; ⟦NASA⟧⟦<sup>⟧1⟦</sup>⟧",
            "⟦MP3⟧를 ⟦v1.2.3⟧부터, ⟦snake_case⟧가 ⟦0xFF⟧로, ⟦XLIFF 1.2⟧를",
        ),
        (
            "1st 2nd 3D 3.5 1,000 1999 12:30 USD 1.20",
            "1.000.000 Euro, 12.345.678 und 1.234.567,89",
            "Mitarbeiter_innen, Nutzer_in, usw.usf., am 17. Mai 2024, Montag, 3. Oktober",
        ),
    ),
    SpanClass(
        "numbers",
        "of five digits and more, telephone numbers, dates such as `2026-01-31`, `$1,299.50`",
        r"\d{5}|\+\d|\d-\d|[$€£]\d",
        (
            rf"(?<![{_L}.,])\d{{5,}}+{_END}(?![.,]\d)",  # long digit strings
            rf"(?<![{_L}+])\+\d{{1,3}}[ /(-]?[\d ()/-]{{5,18}}\d{_END}",  # telephone numbers
            # ISO dates
            rf"(?<![{_L}-])\d{{4}}-\d{{2}}-\d{{2}}"
            rf"(?:[T ]\d{{2}}:\d{{2}}(?::\d{{2}})?+Z?)?(?![{_L}-])",
            # $1,299.50
            rf"{_BEGIN}[$€£]\d{{1,3}}(?:,\d{{3}})++\.\d{{2}}{_END}(?![.,]\d)",
        ),
        (
            "⟦+49 30 1234567⟧ | ⟦12345⟧ | ⟦2024-05-17⟧ | ⟦2024-05-17T10:00Z⟧",
            "⟦2024-05-17 10:00:00⟧",
            "It costs ⟦$1,299.50⟧, not $2,000 or $1.50.",
            "⟦12345⟧를 더하고 ⟦2024-05-17⟧까지",
        ),
        ("3-4, 10-20 and 1999", "각 2024년 5월 17일"),
    ),
    SpanClass(
        "signs",
        "arrows, emoji, currencies, `©`",
        rf"[\u20e3{_SIGNS}]",
        (rf"(?:[{_SIGNS}]|[0-9#*]\ufe0f?\u20e3)++",),
        (
            "⟦✓⟧ done, 5 ⟦€⟧, Windows⟦®⟧, ⟦▾⟧, ⟦→⟧, ⟦👩‍🚀⟧ and ⟦👍🏽⟧, ⟦ℹ⟧ Info",
            "Hello! ⟦😊⟧ How are you? Press ⟦1️⃣⟧ or ⟦2️⃣3️⃣⟧.",
        ),
        ("It's 5 o'clock (maybe)... \"what?\"", "\ue000 \udcf5 é"),
    ),
    SpanClass(
        "entities",
        "`&amp;`, `&#160;`",
        r"&",
        (r"&(?:#\d{1,7}|#x[0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});",),
        ("⟦&nbsp;⟧ ⟦&#160;⟧ ⟦&#xA0;⟧ AT&T", "Tom ⟦&amp;⟧ Anna, 5 ⟦&lt;⟧ 6"),
        ("R & D; S&P; no", "a &; b"),
    ),
)


# The class of the names of people and products, which no pattern finds: see translation/names.py.
NAMES = "names"
CLASSES = (*(spans.name for spans in SPAN_CLASSES), NAMES)


def digest_of_patterns() -> str:
    """Return a hash (16 hex digits) of the regular expressions of all classes of spans."""
    patterns = [pattern for spans in SPAN_CLASSES for pattern in spans.patterns]
    return hashlib.sha256("\n".join(patterns).encode()).hexdigest()[:16]
