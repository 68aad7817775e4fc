"""The commands `plot attention` and `plot embedding`.

Heavy modules are imported inside the commands.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bytenmt.cli.console import SubGroup, check_output, say, standard_input, writer
from bytenmt.cli.options import FILE, RUN, RUNTIME, beam_option, within
from bytenmt.config.bounds import Bounds
from bytenmt.errors import BytenmtError

if TYPE_CHECKING:
    from bytenmt.evaluation.heat_map import HeatMaps

LONGEST = 300  # characters of either text: no label of more could be read
SUFFIXES = (".png", ".html")


@click.group(cls=SubGroup)
def plot() -> None:
    """Draw a model's attention or its byte embedding."""


def line_option(name: str, help: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return an option that takes a line of text."""
    return click.option(name, metavar="TEXT", help=help)


@plot.command()
@RUN
@line_option("--line", "Source line (default: the first line of stdin).")
@line_option("--target", "Target line to align with the source (default: the model's translation).")
@click.option(
    "-o",
    "--output",
    "outputs",
    type=FILE,
    multiple=True,
    help="File to write, FILE.png or FILE.html; may be given twice (default: attention.png).",
)
@beam_option("translation")
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
    """Draw the attention weights of a translation as a heat map.

    Rows are target characters, columns are source characters; the weights of bytes are merged into
    characters. A model with several attention layers gets one map for each layer and one for their mean.
    """
    outputs = outputs or (Path("attention.png"),)
    _check(outputs)
    if beam is not None and target is not None:
        raise BytenmtError(
            "--beam-size would be ignored with --target, which is not decoded: drop one of them"
        )
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
        from bytenmt.evaluation.drawing import require_matplotlib

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
    from bytenmt.cli.decoding_args import utf8
    from bytenmt.config.schema import architecture
    from bytenmt.decoding.interface import AUTO, EngineSpec
    from bytenmt.decoding.loading import load_runs
    from bytenmt.decoding.settings import Settings
    from bytenmt.decoding.translator import Translator
    from bytenmt.evaluation.heat_map import HeatMaps

    runtime = load_runs([run], EngineSpec(AUTO, device, "fp32", threads))
    (loaded,) = runtime.runs
    if not runtime.has_source or not loaded.config.model.has_attention:
        raise BytenmtError(
            f"{run} has no attention weights: its architecture is {architecture(loaded.config.model)}"
        )
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
    from bytenmt.errors import printable
    from bytenmt.evaluation import drawing, heat_map

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
@click.option(
    "-o",
    "--output",
    type=FILE,
    default=Path("embedding.png"),
    help="File to write, FILE.png (default: embedding.png).",
)
@click.option(
    "--text",
    "texts",
    type=FILE,
    multiple=True,
    help="Draw only the bytes that occur in this text; may be repeated (default: all bytes of UTF-8).",
)
@click.option(
    "--neighbours",
    type=within(Bounds(0, 20)),
    default=5,
    show_default=True,
    help="Number of nearest neighbours listed for each byte.",
)
def embedding(run: Path, output: Path, texts: tuple[Path, ...], neighbours: int) -> None:
    """Draw a model's byte embedding in two dimensions.

    The map shows the first two principal components of the byte embedding. Stdout lists the nearest
    neighbours of every byte by cosine similarity. Bytes that never occurred in training keep their random
    initial vectors: use --text to leave them out.
    """
    if output.suffix != ".png":
        raise BytenmtError(f"{output}: give a name that ends in .png")
    from bytenmt.evaluation.drawing import png, require_matplotlib

    require_matplotlib()
    check_output(output, *texts)
    from bytenmt.checkpoints.weights import read_run, restored
    from bytenmt.evaluation import embedding_map

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
