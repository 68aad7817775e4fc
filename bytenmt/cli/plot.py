"""The command `plot`. Heavy modules are imported inside it."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, replace
from pathlib import Path

import click

from bytenmt.cli.console import CONSOLE
from bytenmt.cli.files import check_output, writer
from bytenmt.cli.options import MACHINE, command, models
from bytenmt.config.fields import option
from bytenmt.decoding.interface import EngineSpec
from bytenmt.errors import BytenmtError

MAX_CHARACTERS = 300  # of either text: labels of more could not be read


@dataclass(frozen=True, kw_only=True)
class AttentionOptions:
    """The options of `bytenmt plot`: the line to translate and the picture to write."""

    line: str = option(MISSING, "Source line.", metavar="TEXT")
    output: Path = option(Path("attention.png"), "Picture to write, FILE.png.", "-o", "--output")


@command("plot", models("MODEL", most=1), MACHINE)
def plot(runs: tuple[Path, ...], how: AttentionOptions, machine: EngineSpec) -> None:
    """Draw the attention of a translation, by greedy search, as a heat map.

    Rows are target characters, columns are source characters; the weights of bytes are merged into
    characters. A model with several attention layers gets one map for each layer and one for their
    mean.
    """
    from bytenmt.decoding.loading import load_runs
    from bytenmt.evaluation import plots
    from bytenmt.translation.translator import Translator

    plots.check_picture(str(how.output))
    check_output(how.output)
    source = how.line.encode()
    runtime = load_runs(runs, replace(machine, precision="fp32"))
    (loaded,) = runtime.runs
    if not runtime.has_source or not loaded.config.model.has_attention:
        raise BytenmtError(
            f"{runs[0]} has no attention, or no source: there are no weights to draw"
        )
    (text,) = Translator.from_runtime(runtime, beam=1).translate([source])
    for name, data in (("the line", source), ("the text", text)):
        if not 0 < len(data.decode()) <= MAX_CHARACTERS:
            raise BytenmtError(
                f"{name} has {len(data.decode())} characters: expected 1 to {MAX_CHARACTERS}"
            )
    (scorer,) = runtime.make_attention_scorers()
    maps = plots.attention_maps(source, text, scorer.attention_weights([(source, text)])[0])
    if (
        max(source.decode() + text.decode()) >= plots.FIRST_EASTERN
        and len(plots.label_families()) == 1
    ):
        CONSOLE.say(
            "bytenmt: letters will be drawn as boxes: install a font that has them, such as"
            f" {plots.FAMILIES[1]}"
        )
    with writer(how.output) as out:
        out.write(plots.png(plots.draw_attention(source.decode(), text.decode(), maps)))
    click.echo(text.decode())
    CONSOLE.say(f"{how.output}: written")
