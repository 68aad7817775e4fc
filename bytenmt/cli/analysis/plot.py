"""The commands `plot attention` and `plot embedding`.

Heavy modules are imported inside the commands.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bytenmt.cli.console import SubGroup, check_output, say, standard_input, writer
from bytenmt.cli.options import FILE, RUNTIME, beam_option, one_model
from bytenmt.errors import BytenmtError

if TYPE_CHECKING:
    from bytenmt.decoding.loading import Runtime

LONGEST = 300  # characters of either text: no label of more could be read


@click.group(cls=SubGroup)
def plot() -> None:
    """Draw a model's attention or its byte embedding."""


def picture(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option -o with this default."""
    help = f"Picture to write, FILE.png (default: {name})."
    return click.option("-o", "--output", type=FILE, default=Path(name), help=help)


def _check(output: Path, *texts: Path) -> None:
    """Raise BytenmtError for a picture that cannot be drawn or written."""
    from bytenmt.evaluation.plots import require_matplotlib

    if output.suffix != ".png":
        raise BytenmtError(f"{output}: give a name that ends in .png")
    require_matplotlib()
    check_output(output, *texts)


@plot.command()
@one_model
@click.option("--line", metavar="TEXT", help="Source line (default: the first line of stdin).")
@click.option(
    "--target",
    metavar="TEXT",
    help="Target line to align with the source (default: the model's translation).",
)
@picture("attention.png")
@beam_option("translation")
@RUNTIME
def attention(
    run: Path,
    line: str | None,
    target: str | None,
    output: Path,
    beam: int | None,
    errors: str,
    device: str,
    threads: int | None,
) -> None:
    """Draw the attention weights of a translation as a heat map.

    Rows are target characters, columns are source characters; the weights of bytes are merged into
    characters. A model with several attention layers gets one map for each layer and one for their mean.
    """
    from bytenmt.cli.decoding_args import utf8
    from bytenmt.config.schema import architecture
    from bytenmt.decoding.interface import AUTO, EngineSpec
    from bytenmt.decoding.loading import load_runs
    from bytenmt.evaluation import plots

    _check(output)
    source = _line(line, errors)
    runtime = load_runs([run], EngineSpec(AUTO, device, "fp32", threads))
    (loaded,) = runtime.runs
    if not runtime.has_source or not loaded.config.model.has_attention:
        raise BytenmtError(
            f"{run} has no attention weights: its architecture is {architecture(loaded.config.model)}"
        )
    text = _translated(runtime, source, beam or 1) if target is None else utf8(target, "--target")
    for name, data in (("the line", source), ("the text", text)):
        if not 0 < len(data.decode()) <= LONGEST:
            raise BytenmtError(f"{name} has {len(data.decode())} characters: expected 1 to {LONGEST}")
    (reader,) = runtime.attention()
    maps = plots.attention_maps(source, text, reader.layers([(source, text)])[0])
    unknown = plots.Labels.from_texts((source.decode(), text.decode())).unknown
    if unknown:
        say(f"bytenmt: no font here has {''.join(sorted(unknown))[:20]}: they are spelt in ASCII")
    with writer(output) as out:
        out.write(plots.png(plots.draw_attention(source.decode(), text.decode(), maps)))
    click.echo(text.decode())
    say(f"{output}: written")


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


def _translated(runtime: Runtime, source: bytes, beam: int) -> bytes:
    """Return the translation of a line as one piece."""
    from bytenmt.decoding.translator import Translator

    translator = Translator.from_runtime(runtime, beam=beam)
    if len(source) > translator.max_source_bytes:
        most = translator.max_source_bytes
        raise BytenmtError(f"the line has {len(source)} bytes, over the {most} that the model was trained on")
    (text,) = translator.translate([source])
    return text


@plot.command()
@one_model
@picture("embedding.png")
@click.option(
    "--text",
    "texts",
    type=FILE,
    multiple=True,
    help="Draw only the bytes that occur in this text; may be repeated (default: all bytes of UTF-8).",
)
def embedding(run: Path, output: Path, texts: tuple[Path, ...]) -> None:
    """Draw a model's byte embedding in two dimensions: its first two principal components.

    Bytes that never occurred in training keep their random initial vectors: use --text to leave them out.
    """
    from bytenmt.checkpoints.weights import read_run, restored
    from bytenmt.evaluation import plots

    _check(output, *texts)
    table = restored(read_run(run)[1].arrays)["embedding.weight"].astype("float64")
    chosen = _bytes_of(texts) if texts else sorted(byte for kind in plots.BYTES.values() for byte in kind)
    if len(chosen) < 3:
        raise BytenmtError(f"{texts[0]} has {len(chosen)} different bytes: expected 3 or more")
    with writer(output) as out:
        out.write(plots.png(plots.draw_embedding(table, chosen)))
    say(f"{output}: written")


def _bytes_of(texts: tuple[Path, ...]) -> list[int]:
    """Return the distinct bytes of the lines of files. Raises DataError."""
    from bytenmt.cli.inputs import text_file

    found: set[int] = set()
    for text in texts:
        for line in text_file(text, "replace"):
            found.update(line)
    return sorted(found)
