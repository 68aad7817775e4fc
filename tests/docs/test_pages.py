"""The README and the guides: their commands run, their output is real, their links work."""

import ast
import doctest
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import command_server
import guide_pages
import pytest
from guide_pages import CARDS, PAGES, REPORTS, ROOT, Command

from bytenmt.architectures.section import Section
from bytenmt.cli.main import COMMANDS, main
from bytenmt.config import schema
from bytenmt.config.train_section import TrainConfig
from bytenmt.decoding.interface import SEARCH_SETTINGS
from bytenmt.decoding.model_summary import model_description
from bytenmt.span_classes import CLASSES
from tools import configuration_page

WITH_COMMANDS = [page for page in PAGES if guide_pages.commands(page)]
MATCH = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
N_LINES = 10  # of each text of the sample that the commands find
PORT = 5000  # of a server in the pages


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a program `bytenmt` that a warmed process answers."""
    folder = tmp_path_factory.mktemp("programs")
    with command_server.serving(folder, command_server.run_shortened):
        yield folder


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like a clone, with the first lines of the sample."""
    folder = tmp_path / "clone"
    (folder / "data").mkdir(parents=True)
    for path in (ROOT / "data").iterdir():
        if path.is_file():
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)[:N_LINES]
            (folder / "data" / path.name).write_text("".join(lines), encoding="utf-8")
    (folder / "data" / "models").symlink_to(ROOT / "data" / "models")
    (folder / "tools").symlink_to(ROOT / "tools")
    monkeypatch.chdir(folder)
    return folder


def shell_script(commands: list[Command], port: int) -> str:
    """Return a script that runs commands in turn, each with its output and exit code in files."""
    parts = ["set -o pipefail"]
    for number, command in enumerate(commands):
        line = command.line.replace(f":{PORT}", f":{port}")
        parts.append(f"{{ {line}\n}} >out.{number} 2>err.{number}; echo $? >code.{number}")
        if line.endswith("&"):  # a server: wait until it listens
            connect = f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null"
            parts.append(f"for i in $(seq 300); do {connect} && break; sleep 0.1; done")
    return "\n".join([*parts, "kill $(jobs -p) 2>/dev/null; wait"])


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=page_name)
def test_the_commands_of_a_page_print_what_it_says(page: Path, programs: Path, clone: Path) -> None:
    for name, text in guide_pages.files(page).items():
        (clone / name).write_text(text, encoding="utf-8")
    commands = guide_pages.commands(page)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = os.environ | {
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "BYTENMT_SERVE_PORT": str(port),
    }
    script = shell_script(commands, port)
    subprocess.run(["bash", "-c", script], env=environment, stdin=subprocess.DEVNULL, timeout=300)
    checker = doctest.OutputChecker()
    wrong = []
    for number, command in enumerate(commands):
        code, out, err = (
            Path(f"{kind}.{number}").read_text(errors="replace") for kind in ("code", "out", "err")
        )
        as_shown = command.output is None or checker.check_output(command.output, out, MATCH)
        ended_by_head = code == "141\n" and "| head" in command.line  # SIGPIPE
        if not (code == "0\n" or ended_by_head) or not as_shown:
            wrong.append(f"$ {command.line}\nexit code {code}{out}{err[-2000:]}")
    assert not wrong, "\n".join(wrong)


def python_examples(page: Path) -> str:
    """Return the doctests of a page, which follow one another."""
    every = [block.text for block in guide_pages.blocks(page) if block.info == "python"]
    return "".join(text for text in every if ">>>" in text)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if python_examples(page)], ids=page_name)
def test_the_python_examples_of_a_page_run(page: Path, clone: Path) -> None:
    examples = python_examples(page)
    for name, text in guide_pages.files(page).items():
        (clone / name).write_text(text, encoding="utf-8")
    test = doctest.DocTestParser().get_doctest(examples, {}, page.name, str(page), 0)
    said: list[str] = []
    doctest.DocTestRunner(verbose=False, optionflags=MATCH).run(test, out=said.append)
    assert not said, "".join(said)


def test_what_is_not_run_here_says_what_runs_it() -> None:
    for page in PAGES:
        for block in guide_pages.blocks(page):
            first = block.info.split()[:1]
            assert first and first != ["bash"], f"{page.name}: no language, or bash:\n{block}"
            if first == ["sh"] or first == ["python"] and ">>>" not in block.text:
                assert block.by and (ROOT / block.by).exists(), f"{page.name}:\n{block.text}"


@pytest.mark.parametrize("page", [*PAGES, *REPORTS, *CARDS], ids=page_name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    assert guide_pages.broken_links(page) == []


def known_options() -> set[str]:
    """Return every long option of every command."""
    parameters = [one for command in (main, *main.every().values()) for one in command.params]
    names = {name for one in parameters for name in (*one.opts, *one.secondary_opts)}
    return {"--help", "--version"} | {name for name in names if name.startswith("--")}


# Options of other programs: pip, pytest's wrapper, docker and the tools that a page names.
OTHER_OPTIONS = {
    *("--fast", "--no-build-isolation", "--from", "--rm", "--lines", "--row", "--time", "--needs"),
    *("--dry-run", "--corpora", "--clear-fuzzy", "--empty"),
}


def configuration_keys() -> set[str]:
    """Return the keys of all sections, as --set has them."""
    sections = [("model", one) for one in get_args(schema.ModelConfig)]
    sections += [("data", schema.DataConfig), ("train", TrainConfig)]
    return {f"{section}.{key}" for section, kind in sections for key in kind.__struct_fields__}


def test_options_and_keys_that_pages_name_exist() -> None:
    options = known_options() | OTHER_OPTIONS
    keys = configuration_keys() | {"model.arch", "model.safetensors", "model.py"}
    for page in [ROOT / "README.md", *guide_pages.GUIDES]:
        if page.stem == "changelog":  # names what was removed
            continue
        named = re.findall(r"`([^`\n]+)`", guide_pages.prose(page))
        text = "\n".join(words for words in named if not words.startswith("python tools/"))
        text += "\n" + "\n".join(command.line for command in guide_pages.commands(page))
        unknown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - options
        unknown |= set(re.findall(r"(?<![\w/])(?:data|train|model)\.[a-z][a-z_0-9]+", text)) - keys
        assert not unknown, f"{page.name} names {sorted(unknown)}"


def undocumented(options: list[str], text: str) -> bool:
    """Return whether a text names none of the spellings of an option: -o, --output."""
    return not any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) for name in options)


def test_every_option_is_on_a_page() -> None:
    """Every option of --help is described, or shown in an example, under one of its spellings."""
    pages = [page for page in PAGES if page.stem != "changelog"]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    missing = [
        f"{name} {parameter.opts[-1]}"
        for name, command in main.every().items()
        for parameter in command.params
        if parameter.opts[0].startswith("-")
        and undocumented([*parameter.opts, *parameter.secondary_opts], text)
    ]
    assert missing == [], "describe these options on a page of bytenmt/docs"


def test_each_option_of_a_search_has_its_row() -> None:
    page = next(page for page in PAGES if page.stem == "decoding")
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    missing = [
        parameter.opts[-1]
        for parameter in main.every()["translate"].params
        if parameter.name in SEARCH_SETTINGS
        and undocumented([*parameter.opts, *parameter.secondary_opts], "\n".join(rows))
    ]
    assert missing == [], "add a row for these options to the table of decoding.md"


def test_the_classes_of_keep_are_those_of_their_page() -> None:
    text = section(ROOT / "bytenmt" / "docs" / "constraints.md", "## Keep spans of the source")
    rows = re.findall(r"^\| (`[^|]+`) \|", text, flags=re.M)
    cure = "the table of classes of bytenmt/docs/constraints.md has a row for each, in this order"
    assert re.findall(r"`(\w+)`", " ".join(rows)) == list(CLASSES), cure


def test_files_that_pages_name_exist() -> None:
    """Tools and tests on all pages; modules of the package, such as utf8, in one."""
    package = ROOT / "bytenmt"
    for page in [ROOT / "README.md", *guide_pages.GUIDES]:
        named = re.findall(r"`(?:python )?([^`\s]+)[^`\n]*`", guide_pages.prose(page))
        for name in named:
            if re.match(r"(?:tools|tests)/", name):
                assert (ROOT / name).exists(), f"{page.name} names {name}"
            elif page.stem == "architecture" and re.fullmatch(r"[a-z_]+/[\w/.]*", name):
                path = package / name
                assert (
                    path.exists()
                    or path.with_suffix(".py").exists()
                    or (package / "decoding" / "cpu" / name).with_suffix(".py").exists()
                ), f"{page.name} names {name}"


def section(page: Path, heading: str) -> str:
    """Return the text of a page under a heading, up to the next one."""
    return page.read_text(encoding="utf-8").partition(f"{heading}\n")[2].partition("\n#")[0]


@pytest.mark.parametrize("path", ["From a byte to a translation", "From a file to an update"])
def test_the_reading_paths_are_short(path: str) -> None:
    text = section(ROOT / "bytenmt" / "docs" / "architecture.md", f"### {path}")
    names = re.findall(r"^\| `([\w/]+\.py)` \| \S", text, flags=re.M)
    n_lines = 0
    for name in names:
        n_lines += (ROOT / "bytenmt" / name).read_text(encoding="utf-8").count("\n")
    assert 5 <= len(names) <= 10 and n_lines <= 1500


@pytest.mark.slow
def test_docstrings_name_files_that_are_there() -> None:
    """A module that a docstring names has not been renamed or deleted."""
    files = [
        path for folder in ("bytenmt", "tools", "tests") for path in (ROOT / folder).rglob("*.py")
    ]
    names = {path.name for path in files}
    kinds = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
    for path in files:
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if re.search(r"\w\.py\b", source) else ():
            text = ast.get_docstring(node) if isinstance(node, kinds) else None
            named = set(re.findall(r"\b[a-z]\w*\.py\b", text or ""))
            assert named <= names, f"{page_name(path)} names {sorted(named - names)}"


def test_every_configuration_key_has_its_line() -> None:
    text = (ROOT / "bytenmt" / "docs" / "configuration.md").read_text(encoding="utf-8")
    keys = set(re.findall(r"`((?:data|train|model)\.[a-z_0-9]+)`", text))
    missing = sorted(configuration_keys() - keys)
    cure = "run python tools/configuration_page.py; add rows of model.* to configuration.md by hand"
    assert missing == [], cure


class Unexplained(Section, frozen=True):
    """A section whose key has neither a comment nor a help."""

    key: int = 1


def test_every_configuration_key_has_a_meaning() -> None:
    """No row of docs/configuration.md has an empty last cell; the tool refuses to write one."""
    text = (ROOT / "bytenmt" / "docs" / "configuration.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert [row for row in rows if not row.removesuffix("|").rpartition("|")[2].strip()] == []
    with pytest.raises(ValueError, match="data.key: write a comment beside the field"):
        configuration_page.table("data", Unexplained)


def test_the_configuration_page_is_what_the_code_says() -> None:
    text = configuration_page.PAGE.read_text(encoding="utf-8")
    assert configuration_page.page(text) == text, "run python tools/configuration_page.py"
    assert text.count("| values |") == 2


def test_models_of_papers_are_described() -> None:
    text = (ROOT / "bytenmt" / "docs" / "for-researchers.md").read_text(encoding="utf-8")
    table = re.findall(r"^\|[^|]+\| `([a-z0-9]+) --preset paper([^`]*)`", text, flags=re.M)
    described = {model_description(arch, "paper", more.split()[1::2]) for arch, more in table}
    cure = "the table of papers of bytenmt/docs/for-researchers.md has a row for each model"
    assert len(described) == len(table) == 13, cure


def test_every_command_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `bytenmt ([a-z-]+)` \|", text, flags=re.M)
    assert sorted(listed) == sorted(COMMANDS), "correct the table of commands of README.md"
    assert text.count("\n") <= 150


def test_the_readme_links_every_guide() -> None:
    index = guide_pages.prose(ROOT / "README.md")
    for guide in guide_pages.GUIDES:
        assert f"(bytenmt/docs/{guide.name})" in index, f"README.md does not link {guide.name}"
