"""Read the commands, files, examples and links of the documentation pages.

A page has fenced blocks: `console` has commands after `$ ` and what they print; `console example`
the same, whose output is that of a longer training and is not compared; a language and a file name
(`po menu.po`) is a file that the commands find; `python` with `>>>` is a doctest; `sh` is not run
by the tests of the pages, and has the comment `<!-- run by PATH -->` above it, which names what
runs it.
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GUIDES = sorted((ROOT / "bytenmt" / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / ".github" / "CONTRIBUTING.md", *GUIDES]
TOOLS = ROOT / "tools"
REPORTS = [*sorted(TOOLS.glob("*.md")), *sorted((TOOLS / "results").glob("*.md"))]
CARDS = [ROOT / "data" / "README.md", ROOT / "data" / "models" / "README.md"]
FENCE = re.compile(
    r"^(?:<!-- run by (?P<by>\S+) -->\n)?```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.M | re.S
)
LINK = re.compile(r"\]\(([^()\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    info: str
    text: str
    by: str | None = None


@dataclass(frozen=True)
class Command:
    """A shell command of a page and the lines that it prints; None where they are not compared."""

    line: str
    output: str | None


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page."""
    found = FENCE.finditer(page.read_text(encoding="utf-8"))
    return [Block(match["info"], match["text"], match["by"]) for match in found]


def prose(page: Path) -> str:
    """Return the text of a page without its fenced blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def files(page: Path) -> dict[str, str]:
    """Return the files that a page shows, by name."""
    named = [block for block in blocks(page) if re.fullmatch(r"[a-z]+ [^\s/]+\.\S+", block.info)]
    return {block.info.split()[1]: block.text for block in named}


def is_complete(line: str) -> bool:
    """Return whether a shell command ends here, and not behind a backslash or inside of quotes."""
    try:
        shlex.split(line)
    except ValueError:
        return False
    return not line.endswith("\\\n")


def commands(page: Path) -> list[Command]:
    """Return the commands of a page in order."""
    found = []
    for block in blocks(page):
        if block.info.split()[:1] != ["console"]:
            continue
        for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
            line = ""
            n_lines = 0
            for one in part.splitlines(keepends=True):
                line = line + one
                n_lines = n_lines + 1
                if is_complete(line):
                    break
            output = "".join(part.splitlines(keepends=True)[n_lines:])
            compared = output and block.info == "console"
            found.append(Command(line.rstrip("\n"), output if compared else None))
    return found


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub names them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def broken_links(page: Path) -> list[str]:
    """Return the links of a page that lead to no file or heading of the repository."""
    broken = []
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken
