"""The commands `plot attention` and `plot embedding`.

Heavy modules are imported inside the commands.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bytenmt.cli import options
from bytenmt.cli.console import Group, check_output, say, standard_input, writer
from bytenmt.cli.options import Part, command, models, plain, record
from bytenmt.config.fields import Beam, Option
from bytenmt.decoding.interface import EngineSpec
from bytenmt.decoding.setting_table import SPEED
from bytenmt.errors import BytenmtError

if TYPE_CHECKING:
    from bytenmt.decoding.loading import Runtime

LONGEST = 300  # characters of either text: no label of more could be read
LINE = Option("line", str | None, None, "Source line (default: the first line of stdin).", metavar="TEXT")
TARGET = Option(
    "target",
    str | None,
    None,
    "Target line to align with the source (default: the model's translation).",
    metavar="TEXT",
)
BEAM = Option(
    "beam",
    Beam,
    1,
    "Beam size of the translation; 1 is greedy search.",
    ("-b", "--beam-size", "--beam"),
)
TEXTS = Option(
    "texts",
    tuple[Path, ...],
    (),
    "Draw only the bytes that occur in this text; may be repeated (default: all bytes of UTF-8).",
    ("--text",),
)


def picture(name: str) -> Part:
    """Return the option -o with this default."""
    return plain(Option("output", Path, Path(name), "Picture to write, FILE.png.", ("-o", "--output")))


def _check(output: Path, *texts: Path) -> None:
    """Raise BytenmtError for a picture that cannot be drawn or written."""
    from bytenmt.evaluation.plots import require_matplotlib

    if output.suffix != ".png":
        raise BytenmtError(f"{output}: give a name that ends in .png")
    require_matplotlib()
    check_output(output, *texts)


@command(
    "attention",
    models("MODEL", most=1),
    plain(LINE, TARGET),
    picture("attention.png"),
    plain(BEAM),
    options.ERRORS,
    record("machine", EngineSpec, SPEED, leave_out=("engine", "precision", "reverse")),
)
def attention(
    runs: tuple[Path, ...],
    line: str | None,
    target: str | None,
    output: Path,
    beam: int,
    errors: str,
    machine: EngineSpec,
) -> None:
    """Draw the attention weights of a translation as a heat map.

    Rows are target characters, columns are source characters; the weights of bytes are merged into
    characters. A model with several attention layers gets one map for each layer and one for their mean.
    """
    from bytenmt.config.schema import architecture
    from bytenmt.decoding.loading import load_runs
    from bytenmt.evaluation import plots

    _check(output)
    source = _first_line(errors) if line is None else line.encode()
    runtime = load_runs(runs, replace(machine, precision="fp32"))
    (loaded,) = runtime.runs
    if not runtime.has_source or not loaded.config.model.has_attention:
        raise BytenmtError(
            f"{runs[0]} has no attention weights: its architecture is {architecture(loaded.config.model)}"
        )
    text = _translated(runtime, source, beam) if target is None else target.encode()
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


def _first_line(errors: str) -> bytes:
    """Return the first line of standard input as UTF-8. Raises BytenmtError."""
    from bytenmt.utf8 import first_invalid

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


@command("embedding", models("MODEL", most=1), picture("embedding.png"), plain(TEXTS))
def embedding(runs: tuple[Path, ...], output: Path, texts: tuple[Path, ...]) -> None:
    """Draw a model's byte embedding in two dimensions: its first two principal components.

    Bytes that never occurred in training keep their random initial vectors: use --text to leave them out.
    """
    from bytenmt.checkpoints.weights import read_run, restored
    from bytenmt.evaluation import plots

    _check(output, *texts)
    table = restored(read_run(runs[0])[1].arrays)["embedding.weight"].astype("float64")
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


plot = Group("plot", help="Draw a model's attention or its byte embedding.", commands=[attention, embedding])
