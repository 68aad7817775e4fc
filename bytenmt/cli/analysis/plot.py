"""The commands `plot attention` and `plot embedding`.

Heavy modules are imported inside the commands.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bytenmt.cli.console import SubGroup, check_output, say, standard_input, writer
from bytenmt.cli.options import FILE, RUN, RUNTIME, within
from bytenmt.config.bounds import BEAM, Bounds
from bytenmt.errors import BytenmtError

if TYPE_CHECKING:
    from bytenmt.analysis.heat_map import HeatMaps

LONGEST = 300  # characters of either text: no label of more could be read
SUFFIXES = (".png", ".html")


@click.group(cls=SubGroup)
def plot() -> None:
    """Draw what a model attends to, or how its bytes lie."""


def line_option(name: str, help: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return an option that takes a line of text."""
    return click.option(name, metavar="TEXT", help=help)


@plot.command()
@RUN
@line_option("--line", "The source; the first line of stdin by default.")
@line_option("--target", "The text that is written; the model's translation by default.")
@click.option(
    "-o",
    "--output",
    "outputs",
    type=FILE,
    multiple=True,
    help="FILE.png, a picture, or FILE.html, a page; may be given twice. attention.png by default.",
)
@click.option("-b", "--beam-size", "--beam", "beam", type=within(BEAM), help="Hypotheses kept; 1 by default.")
@RUNTIME
def attention(
    run: Path,
    line: str | None,
    target: str | None,
    outputs: tuple[Path, ...],
    beam: int | None,
    errors: str,
    device: str,
    threads: int | None,
) -> None:
    """Draw where a model looks while it writes a line.

    A row for each character of the text, a column for each of the source; bytes are merged to characters.
    Every layer that attends has its own map beside the mean.
    """
    outputs = outputs or (Path("attention.png"),)
    _check(outputs)
    if beam is not None and target is not None:
        raise BytenmtError("--beam-size would be ignored: --target is the text")
    found = _attention(run, _line(line, errors), target, beam, device, threads)
    for output in outputs:
        with writer(output) as out:
            out.write(_drawn(found, output.suffix, str(run)))
    click.echo(found.text)
    for output in outputs:
        say(f"{output}: written")


def _check(outputs: tuple[Path, ...]) -> None:
    """Raise BytenmtError for files that cannot be written."""
    for output in outputs:
        if output.suffix not in SUFFIXES:
            raise BytenmtError(f"{output}: give a name that ends in {' or '.join(SUFFIXES)}")
        check_output(output)
    if any(output.suffix == ".png" for output in outputs):
        from bytenmt.analysis.drawing import require_matplotlib

        require_matplotlib()


def _line(argument: str | None, errors: str) -> bytes:
    """Return the source line as UTF-8 bytes."""
    from bytenmt.cli.decoding_args import utf8
    from bytenmt.utf8 import first_invalid

    if argument is not None:
        return utf8(argument, "--line")
    line = standard_input().readline().rstrip(b"\r\n")
    at = first_invalid(line)
    if at >= 0 and errors == "strict":
        raise BytenmtError(f"standard input, line 1, byte offset {at}: 0x{line[at]:02X} is not UTF-8")
    return line if at < 0 else line.decode("utf-8", "replace").encode()


def _attention(
    run: Path, source: bytes, target: str | None, beam: int | None, device: str, threads: int | None
) -> HeatMaps:
    from bytenmt.analysis.heat_map import HeatMaps
    from bytenmt.cli.decoding_args import utf8
    from bytenmt.config.schema import architecture
    from bytenmt.decoding.interface import AUTO, OFF, EngineSpec
    from bytenmt.decoding.loading import load_runs
    from bytenmt.decoding.settings import Settings
    from bytenmt.decoding.translator import Translator

    runtime = load_runs([run], EngineSpec(AUTO, device, "fp32", threads, OFF))
    (loaded,) = runtime.runs
    if not runtime.has_source or not loaded.config.model.has_attention:
        raise BytenmtError(f"{run} has no attention to draw: {architecture(loaded.config.model)}")
    if target is None:
        translator = Translator.from_runtime(
            runtime, Settings.from_dict({} if beam is None else {"beam": beam})
        )
        if len(source) > translator.max_source_bytes:
            most = translator.max_source_bytes
            raise BytenmtError(
                f"the line has {len(source)} bytes, over the {most} that the model was trained on"
            )
        (text,) = translator.translate([source])
    else:
        text = utf8(target, "--target")
    for name, data in (("the line", source), ("the text", text)):
        if not 0 < len(data.decode()) <= LONGEST:
            raise BytenmtError(f"{name} has {len(data.decode())} characters: expected 1 to {LONGEST}")
    (attention,) = runtime.attention()
    return HeatMaps.from_layers(source, text, attention.layers([(source, text)])[0])


def _drawn(maps: HeatMaps, suffix: str, run: str) -> bytes:
    from bytenmt.analysis import drawing, heat_map
    from bytenmt.errors import printable

    if suffix == ".html":
        return heat_map.page(maps, f"attention of {printable(run)}")
    unknown = drawing.Labels.from_texts((maps.source, maps.text)).unknown
    if unknown:
        say(
            f"bytenmt: no font here has {''.join(sorted(unknown))[:20]}: they are spelt in ASCII;"
            " a font with them, or a page by -o FILE.html, shows them as they are"
        )
    return drawing.png(heat_map.figure(maps))


@plot.command()
@RUN
@click.option("-o", "--output", type=FILE, default=Path("embedding.png"), help="embedding.png by default.")
@click.option(
    "--text", "texts", type=FILE, multiple=True, help="Only the bytes that it has; all of UTF-8 by default."
)
@click.option(
    "--neighbours", type=within(Bounds(0, 20)), default=5, show_default=True, help="Listed for each byte."
)
def embedding(run: Path, output: Path, texts: tuple[Path, ...], neighbours: int) -> None:
    """Draw which bytes lie near each other in a model.

    A map of the byte embedding's two axes of most variance; on stdout each byte's nearest others, with the
    cosine of the angle between them. A byte that training has not shown lies where it began: --text leaves it
    out.
    """
    if output.suffix != ".png":
        raise BytenmtError(f"{output}: give a name that ends in .png")
    from bytenmt.analysis.drawing import png, require_matplotlib

    require_matplotlib()
    check_output(output, *texts)
    from bytenmt.analysis import embedding_map
    from bytenmt.storage.weights import read_run, restored

    table = restored(read_run(run)[1].arrays)["embedding.weight"].astype("float64")
    chosen = _bytes_of(texts) if texts else embedding_map.IN_TEXT
    if len(chosen) < 3:
        raise BytenmtError(f"{texts[0]} has {len(chosen)} different bytes: expected 3 or more")
    for line in embedding_map.listing(table, chosen, neighbours) if neighbours else ():
        click.echo(line)
    with writer(output) as out:
        out.write(png(embedding_map.figure(table, chosen)))
    say(f"{output}: written")


def _bytes_of(texts: tuple[Path, ...]) -> list[int]:
    """Return the distinct bytes of the lines of files. Raises DataError."""
    from bytenmt.cli.inputs import text_file

    found: set[int] = set()
    for text in texts:
        for line in text_file(text, "replace"):
            found.update(line)
    return sorted(found)
