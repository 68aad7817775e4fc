"""Compare the span extractor with a naive one that shares no code with it, on random lines.

    python tools/verify/spans.py [--lines 100000] [--seed 0]

The naive extractor tries every start and end with Python's regular expressions, and takes the best spans one
by one. Each line mixes spans of all classes, halves of them, hostile pieces and text. Checked for each line:
both extractors find the same spans, with all classes and with a random subset; every byte kept with some
classes is also kept with more; each span is found again where it is the whole line.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout, before what is installed

from bytenmt.spans.extractor import span_extractor
from bytenmt.spans.grammar import CLASSES

HOST = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
HOSTS = rf"{HOST}(?:\.{HOST})*"
IN_URL = r"[a-z0-9._~:/?#@!$&'()*+,;=%\[\]-]"
LAST_OF_URL = r"[a-z0-9/_~#$&*+=%@-]"
URL = rf"(?:https?|ftp)://{IN_URL}*{LAST_OF_URL}"
URL_CASED = URL.replace("a-z", "A-Za-z")
MAIL = rf"[0-9a-z_][a-z0-9._+-]*@{HOSTS}\.[a-z]{{2,}}".replace("a-z", "A-Za-z")
CONVERSION = (
    r"(?:%\d+\$[A-Za-z]|%(?:\([^(){}\s]+\))?(?:\d+\$)?(?:(?:[#0+]*|[#0+-]*(?:\d+|\*))(?:\.(?:\d+|\*))?(?:hh|ll|[hlqjztL])?"
    r"[diouxXeEfFgGaAcrspn@]|[#0+-]*[,'][#0+-]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:ll|[lqjztL])?[diufFgG]))"
    r"(?:[A-Za-z0-9_]|[\xc0-\u07ff])*"
)
NAIVE = {
    "placeholders": [
        r"\{\{[^{}\n]*\}\}|\{\{\{[^{}\n]*\}\}\}",
        r"[$#]?\{[^{}\s][^{}\n]*\}|[$#]?\{[A-Za-z0-9_.:,!$ -]*\}",
        r"\$t\((?:[^(){}\n]|\{[^{}\n]*\}|\{\{[^{}\n]*\}\})*\)",
        r"\$[A-Za-z_]\w*|%%|%(?:[A-Z_]|[a-z](?=[A-Za-z_]{3}))[A-Za-z_]+%|\[[A-Z]\d+[A-Z]\]",
        r"\$(?:[A-Za-z0-9_@]+\$)+(?:[A-Za-z0-9_]|[\xc0-\u07ff])*",
        CONVERSION,
    ],
    "tags": [
        r"</?[A-Za-z][\w:.-]*"
        r"(?:[ \t]+[A-Za-z_:@][\w:.-]*(?:[ \t]*=[ \t]*(?:\"[^\"<]*\"|'[^'<]*'|[^\s\"'<>=`]+))?)*[ \t]*/?>",
        r"<>|</>|<!--[^<>]*-->|</?\d{1,3}[ \t]*/?>",
    ],
    "urls": [
        rf"{URL_CASED}|<{URL_CASED}>",
        rf"www\.{HOSTS}(?:/{IN_URL}*{LAST_OF_URL})?".replace("a-z", "A-Za-z"),
    ],
    "emails": [rf"{MAIL}|<{MAIL}>"],
    "numbers": [r"\d+(?:[.,]\d+)*"],
}
MATCHERS = {
    name: [re.compile(pattern, re.ASCII) for part in parts for pattern in [part]]
    for name, parts in NAIVE.items()
}
LETTER = re.compile(r"[0-9A-Za-z_\xc0-\u07ff]")
ClassSpan = tuple[int, int, str]

SPANS = [
    *(
        "{name}",
        "{}",
        "{0}",
        "{{count}}",
        "{{{raw}}}",
        "${HOME}",
        "#{n}",
        "$user",
        "$t(menu.open)",
        "%s",
        "%1$s",
    ),
    *(
        "%-5.2f",
        "%(n)d",
        "%,d",
        "%1$tY",
        "%'5.2f",
        "$FILE$",
        "%%",
        "%USER%",
        "[X7X]",
        "<b>",
        "</b>",
        "<br/>",
        '<a href="http://x.y/z">',
        "<!-- c -->",
    ),
    *("<1>", "</1>", "<0/>"),
    *("<>", "</>", "http://a.b/c?d=e", "https://x.y/z_(q)", "<ftp://h/p>", "www.x.org/a", "a.b+c@d-e.co.kr"),
    *("<x@y.org>", "2024-05-17", "10:30", "1,234.5", "3", "COVID-19", "UTF-8", "555-1234"),
]
HALVES = [
    *(
        "{",
        "}",
        "{{",
        "}}",
        "{a",
        "b}",
        "${",
        "$t(",
        "$",
        "%",
        "%(",
        "%5",
        "<",
        ">",
        "<word ",
        '<a b="',
        "<a b='",
    ),
    *(
        "<!--",
        "-->",
        "</",
        "/>",
        "http://",
        "http:",
        "://",
        "www.",
        "www",
        "@",
        "a@",
        "@b.cd",
        ".",
        ",",
        "-",
        "/",
    ),
    *("%,", "%'", "$F", "F$", "<1", "<1 "),
    *("[X", "X]", "=", '"', "'", "(", ")", "&", "[", "+", "#", "_", "<a ", "=q>", "%s{", "x}y", "<http://u"),
]
WORDS = [
    "and",
    "apples",
    "Ge",
    "selbst",
    "s",
    "st",
    "für",
    "é",
    "가",
    "日本",
    "Я",
    "x",
    "B",
    " ",
    " ",
    " ",
    " ",
    " ",
]


def random_line(draw: random.Random) -> str:
    """Return a line of up to sixteen pieces of all kinds; in some a piece is repeated."""
    kinds = draw.choices([SPANS, HALVES, WORDS], [3, 3, 2], k=draw.randrange(1, 17))
    pieces = [draw.choice(kind) for kind in kinds]
    if draw.random() < 0.1:
        pieces[draw.randrange(len(pieces))] *= draw.randrange(2, 6)
    return "".join(pieces)


def class_spans(text: str, name: str) -> list[tuple[int, int]]:
    """Return the spans of one class, from left to right, at each position the longest, in characters."""
    found, at = [], 0
    while at < len(text):
        end = 0
        if not (at and LETTER.match(text, at) and LETTER.match(text, at - 1)):
            for matcher in MATCHERS[name]:
                if matcher.match(text, at):
                    ends = (e for e in range(len(text), at, -1) if matcher.fullmatch(text, at, e))
                    end = max(end, next(ends))
        if end:
            found.append((at, end))
        at = end or at + 1
    return found


def naive_spans(text: str, classes: Sequence[str]) -> list[ClassSpan]:
    """Return the spans of a line, in characters."""

    def n_bytes(one: ClassSpan) -> int:
        return len(text[one[0] : one[1]].encode())

    def best(some: list[ClassSpan]) -> ClassSpan:
        return min(some, key=lambda one: (-n_bytes(one), one[0], classes.index(one[2])))

    first = [(begin, end, name) for name in classes for begin, end in class_spans(text, name)]
    pool, winners = list(first), list[ClassSpan]()
    while pool:
        winner = best(pool)
        pool.remove(winner)
        winners.append(winner)
        left = []
        for begin, end, name in pool:
            if end <= winner[0] or begin >= winner[1]:
                left.append((begin, end, name))
                continue
            for low, high in ((begin, min(end, winner[0])), (max(begin, winner[1]), end)):
                if low < high:
                    left += [(low + b, low + e, name) for b, e in class_spans(text[low:high], name)]
        pool = left
    # Overlapping first spans form a cluster. Where the winners do not cover a cluster, it becomes one span.
    clusters: list[list[ClassSpan]] = []
    end_of_cluster = -1
    for one in sorted(first):
        if one[0] >= end_of_cluster:
            clusters.append([])
        clusters[-1].append(one)
        end_of_cluster = max(end_of_cluster, one[1])
    spans = []
    for cluster in clusters:
        low, high = cluster[0][0], max(end for _, end, _ in cluster)
        inside = [one for one in winners if low <= one[0] < high]
        whole = sum(end - begin for begin, end, _ in inside) == high - low
        spans += inside if whole else [(low, high, best(cluster)[2])]
    return sorted(spans)


def spans(text: str, classes: Sequence[str]) -> list[ClassSpan]:
    """Return the spans that the extractor finds, in characters."""
    line = text.encode()
    return [
        (len(line[: one.begin].decode()), len(line[: one.end].decode()), one.of)
        for one in span_extractor(tuple(classes)).spans(line)
    ]


def check(text: str, some: Sequence[str]) -> int:
    """Check a line and return its number of spans. Raises AssertionError."""
    found, of_some = spans(text, CLASSES), spans(text, some)
    assert found == naive_spans(text, CLASSES), (text, found, naive_spans(text, CLASSES))
    assert of_some == naive_spans(text, some), (text, some, of_some, naive_spans(text, some))
    kept, kept_of_some = (
        {at for begin, end, _ in one for at in range(begin, end)} for one in (found, of_some)
    )
    assert kept_of_some <= kept, (text, some)
    for begin, end, name in found:
        assert spans(text[begin:end], CLASSES) == [(0, end - begin, name)], (text, text[begin:end])
    return len(found)


def check_lines(n: int, seed: int) -> int:
    """Check n random lines; return their number of spans."""
    draw = random.Random(seed)
    n_spans = 0
    for _ in range(n):
        some = sorted(draw.sample(CLASSES, draw.randrange(1, len(CLASSES))), key=CLASSES.index)
        n_spans += check(random_line(draw), some)
    return n_spans


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the span extractor with a naive one.")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    n_spans = check_lines(options.lines, options.seed)
    print(f"{options.lines:,} lines with {n_spans:,} spans: the same as the naive extractor's")


if __name__ == "__main__":
    main()
