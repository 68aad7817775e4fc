"""The commands for translation models: translate, evaluate and score. Parse, call, print; main.py adds them.

The heavy imports stand inside the commands.
"""

from __future__ import annotations

import math
import time
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bytenmt import __version__
from bytenmt.cli.console import (
    Command,
    check_output,
    check_streams,
    commit,
    dash,
    detail,
    say,
    standard_input,
    standard_input_size,
    writer,
)
from bytenmt.cli.options import ANSWERS, COUNT, DECODING, FILE, KEEPING, RUN, RUNS, RUNTIME
from bytenmt.cli.progress import Console
from bytenmt.errors import BytenmtError

if TYPE_CHECKING:
    from bytenmt.decoding.interface import EngineSpec
    from bytenmt.decoding.loading import Runtime

TOKENIZERS = ("13a", "char", "intl", "zh", "none")  # sacreBLEU's, those that need nothing else


@click.command(cls=Command)
@RUNS
@click.option("-i", "--input", type=FILE, callback=dash, help="Text file; stdin by default.")
@click.option("-o", "--output", type=FILE, callback=dash, help="File; stdout by default.")
@click.option("--resume", is_flag=True, help="Go on with -o after the lines that a stopped translation left.")
@click.option(
    "--buffer-size",
    type=COUNT,
    default=1000,
    show_default=True,
    help="Lines that are translated together at most.",
)
@ANSWERS
@DECODING
@RUNTIME
def translate(
    runs: tuple[Path, ...],
    input: Path | None,
    output: Path | None,
    resume: bool,
    buffer_size: int,
    form: str,
    alignment: bool | None,
    with_source: bool,
    stream: bool,
    errors: str,
    device: str,
    threads: int | None,
    **decoding: Any,
) -> None:
    """Translate stdin to stdout, one line out for one line in.

    A line that comes alone is answered at once. An empty line stays empty. A file of -o is there
    when it is whole; until then what is done is kept beside it, and the same command with --resume goes on.
    One of -i may be packed (.gz, .xz, .zst). Under torchrun the lines are shared among the processes.
    """
    from bytenmt.cli import decoding_args, inputs, partial_output
    from bytenmt.cli.line_filter import Filter, follow
    from bytenmt.decoding.choice import choose, processes
    from bytenmt.decoding.translator import Translator

    answers = decoding_args.Answers(form, alignment, with_source, stream)
    settings = decoding_args.settings(decoding)
    wanted = decoding_args.engine_spec(decoding, device, threads)
    with processes(choose(wanted).device) as group:
        leads = group is None or group.leads
        shape = decoding_args.form(answers, settings, group)
        check_output(output, input)
        check_streams(input, output)
        partial_output.check_resume(output, resume)
        text = inputs.to_translate(input, errors) if input is not None and leads else None
        loaded = _loaded(runs, wanted, leads)
        if not loaded.source:
            raise BytenmtError(f"{runs[0]} was trained without a source: it cannot translate")
        translator = Translator.of_runtime(loaded, settings, group=group)
        if not leads:
            follow(translator)
            return
        shape = decoding_args.with_alignment(shape, loaded, alignment)
        made_with = decoding_args.made_with(loaded, translator, shape, buffer_size, errors)
        with partial_output.keeping_writer(output, made_with, resume) as (out, kept):
            lines = Filter(translator, out, shape, buffer_size, kept)
            if text is None:
                lines.stream(standard_input(), errors=errors, size=standard_input_size())
            elif isinstance(text, BufferedReader):
                lines.stream(text, errors=errors, name=str(input))
            else:
                lines.file(text)


@click.command(cls=Command)
@RUNS
@click.option("--src", type=FILE, help="Source text.")
@click.option("--ref", "--tgt", "ref", type=FILE, required=True, help="Its reference translation.")
@click.option("--hyp-out", type=FILE, help="A file to keep the translations in.")
@click.option(
    "--tokenize",
    type=click.Choice(TOKENIZERS),
    default="13a",
    show_default=True,
    help="BLEU's tokenizer; char suits Korean.",
)
@DECODING
@KEEPING
@RUNTIME
def evaluate(
    runs: tuple[Path, ...],
    src: Path | None,
    ref: Path,
    hyp_out: Path | None,
    tokenize: str,
    errors: str,
    device: str,
    threads: int | None,
    **decoding: Any,
) -> None:
    """Print chrF, BLEU, exact match and bits per byte.

    chrF and BLEU with sacreBLEU's signatures. Under torchrun the lines are shared among the processes.
    """
    from bytenmt.cli import decoding_args, inputs
    from bytenmt.decoding.choice import choose, processes
    from bytenmt.decoding.translator import Translator
    from bytenmt.distributed import ALONE
    from bytenmt.evaluation.scores import bits_per_byte, log_probabilities, text_scores
    from bytenmt.storage.checkpoint import load_run

    settings = decoding_args.settings(decoding)
    wanted = decoding_args.engine_spec(decoding, device, threads)
    with processes(choose(wanted).device) as group:
        check_output(hyp_out, src, ref)
        corpus = inputs.all_pairs(src, ref, errors)
        runtime = _loaded(runs, wanted, group is None or group.leads)
        inputs.check_pairs(runs[0], runtime.source, src)
        hypotheses = inputs.hypotheses(Translator.of_runtime(runtime, settings, group=group), corpus)
        on = inputs.torch_device(runtime.spec.device, threads)
        model, *others = (load_run(run, on).model for run in runs)
        log_p = log_probabilities(model, corpus, on, group=group or ALONE, others=others)
    if group is not None and not group.leads:
        return
    if hyp_out is not None:
        with writer(hyp_out) as out:
            out.write(b"".join(text + b"\n" for text in hypotheses))
    references = [line.decode() for line in corpus.tgt]
    scores = text_scores([text.decode() for text in hypotheses], references, tokenize)
    click.echo(f"chrF {scores.chrf:.2f}  {scores.chrf_signature}")
    click.echo(f"BLEU {scores.bleu:.2f}  {scores.bleu_signature}")
    click.echo(f"exact match: {scores.exact_match:.1f} %")
    click.echo(f"bits per byte: {bits_per_byte(log_p, corpus.target_lengths):.4f}")
    click.echo(", ".join([f"bytenmt {__version__}", *decoding_args.provenance(runtime), *commit()]))


@click.command(cls=Command)
@RUN
@click.option("--src", type=FILE, help="Source text.")
@click.option("--tgt", "--ref", "tgt", type=FILE, required=True, help="Target text to score.")
@RUNTIME
def score(run: Path, src: Path | None, tgt: Path, errors: str, device: str, threads: int | None) -> None:
    """Print the log-probability of each line's translation.

    The natural logarithm and the bits per byte of each target, a line each. An empty target has only its end
    to pay for, and inf bits per byte.
    """
    from bytenmt.cli import inputs
    from bytenmt.evaluation.scores import log_probabilities
    from bytenmt.storage.checkpoint import load_run

    corpus = inputs.all_pairs(src, tgt, errors)
    on = inputs.torch_device(device, threads)
    loaded = load_run(run, on)
    inputs.check_pairs(run, loaded.config.model.source, src)
    log_p = log_probabilities(loaded.model, corpus, on)
    for nats, n_bytes in zip(log_p.tolist(), corpus.target_lengths.tolist(), strict=True):
        bits = -nats / math.log(2) / n_bytes if n_bytes else math.inf
        click.echo(f"{nats:.6f}\t{bits:.6f}")


def _loaded(runs: tuple[Path, ...], wanted: EngineSpec, leads: bool) -> Runtime:
    """The runs that decide together; a warning where they seem not to belong together. leads: whether this
    process tells."""
    from bytenmt.cli import decoding_args
    from bytenmt.decoding.loading import load_runs

    began = time.monotonic()
    runtime = load_runs(runs, wanted, Console())
    if leads:
        for warning in decoding_args.opposed(runtime.runs):
            say(f"bytenmt: {warning}")
        for line in decoding_args.described(runtime, time.monotonic() - began):
            detail(line)
    return runtime
