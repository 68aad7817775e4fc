"""The commands: parse, call one function, print.

The heavy imports stand inside the commands, so that --help is quick. Results go to stdout, all else
to stderr; every BytenmtError is one line there and exit code 1. Nothing imports this file.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from bytenmt import __version__
from bytenmt.cli.console import (
    CommandGroup,
    Notices,
    check_output,
    check_streams,
    commit,
    dash,
    standard_input,
    standard_input_size,
    writer,
)
from bytenmt.cli.language_commands import generate, predict
from bytenmt.cli.model_commands import average, convert, info
from bytenmt.cli.options import (
    ANSWERS,
    COUNT,
    COUNT_OR_NONE,
    DECODING,
    FILE,
    MODEL,
    MODELS,
    RUNTIME,
    TEXTS,
    TRAINING,
)
from bytenmt.config.presets import PRESETS
from bytenmt.errors import BytenmtError
from bytenmt.kernel_cache import report_to

ARCHITECTURES = tuple(PRESETS["small"])
TOKENIZERS = ("13a", "char", "intl", "zh", "none")  # sacreBLEU's, those that need nothing else


@click.group(
    cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="bytenmt")
def main() -> None:
    """Character-level translation on raw UTF-8 bytes: no tokenizer, no vocabulary."""
    report_to(Notices())


for command in (predict, generate, average, convert, info):
    main.add_command(command)


@main.command()
@click.option("-o", "--output", "run", type=FILE, required=True, help="The run folder to make.")
@click.option("--arch", metavar="|".join(ARCHITECTURES), help="The architecture.")
@TEXTS
@click.option("--preset", metavar="|".join(PRESETS), help="The size; small by default.")
@click.option("--config", "file", type=FILE, help="A TOML file laid over the preset.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="As train.ema=0.999.")
@TRAINING
@click.option("--init-embedding", type=FILE, help="A run whose byte embedding to start from.")
@click.option("--resume", is_flag=True, help="Go on where the run stopped; may raise its limits.")
@click.option("--resume-from", type=COUNT_OR_NONE, metavar="UPDATE", help="Go on from this checkpoint.")
@click.option("--tensorboard", is_flag=True, help="Write the metrics for TensorBoard too.")
@RUNTIME
def train(
    run: Path,
    arch: str | None,
    src: tuple[Path, ...],
    tgt: tuple[Path, ...],
    tsv: tuple[Path, ...],
    text: tuple[Path, ...],
    weights: tuple[float, ...],
    valid_src: Path | None,
    valid_tgt: Path | None,
    valid_tsv: Path | None,
    valid_text: Path | None,
    preset: str | None,
    file: Path | None,
    settings: tuple[str, ...],
    init_embedding: Path | None,
    resume: bool,
    resume_from: int | None,
    tensorboard: bool,
    errors: str,
    device: str,
    threads: int | None,
    **named: Any,
) -> None:
    """Train a model on raw parallel text, plain or packed (.gz, .xz, .zst).

    --src and --tgt, or --tsv, may be given several times; or --text, whose bytes are learnt as one stream
    without a source: a byte language model. Under torchrun all processes train one model.
    """
    from bytenmt.cli import training_args
    from bytenmt.distributed import process_group
    from bytenmt.training import run as training

    resume = resume or resume_from is not None
    on = training_args.torch_device(device, threads)
    with process_group(on) as group:
        files = training_args.training_files(src, tgt, tsv, text, weights)
        valid = training_args.validation_files(files, valid_src, valid_tgt, valid_tsv, valid_text)
        settings += training_args.named_settings(named)
        source = files[0].has_source
        config = group.first(
            lambda: training_args.configuration(run, resume, arch, preset, file, settings, source)
        )
        training.train(
            run,
            config,
            files=files,
            valid=valid,
            device=on,
            errors=errors,
            resume=resume,
            resume_from=resume_from,
            init_embedding=init_embedding,
            tensorboard=tensorboard,
            group=group,
        )


@main.command()
@MODELS
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
    more_runs: tuple[Path, ...],
    input: Path | None,
    output: Path | None,
    resume: bool,
    buffer_size: int,
    form: str,
    alignment: bool | None,
    stream: bool,
    errors: str,
    device: str,
    threads: int | None,
    **decoding: Any,
) -> None:
    """Translate stdin to stdout, one line out for one line in.

    A line that comes alone is answered at once. An empty line stays empty. A file of -o is there
    when it is whole; until then what is done is kept beside it, and the same command with --resume goes on.
    Under torchrun the lines are shared among the processes.
    """
    from bytenmt.cli import decoding_args, partial_output, training_args
    from bytenmt.cli.line_filter import Filter, follow
    from bytenmt.decoding.choice import choose, processes
    from bytenmt.decoding.loading import load_runs

    given = decoding_args.settings(decoding)
    wanted = decoding_args.engine_spec(decoding, device, threads)
    with processes(choose(wanted).device) as group:
        leads = group is None or group.leads
        shape = decoding_args.form(form, stream, alignment, given, group)
        check_output(output, input)
        check_streams(input, output)
        partial_output.check_resume(output, resume)
        text = training_args.text_file(input, errors) if input is not None and leads else None
        loaded = load_runs(runs + more_runs, wanted, Notices())
        if not loaded.source:
            raise BytenmtError(f"{runs[0]} was trained without a source: it cannot translate")
        translator = decoding_args.translator(loaded, given, group)
        if not leads:
            follow(translator)
            return
        shape = decoding_args.with_alignment(shape, loaded, alignment)
        made_with = decoding_args.made_with(loaded, translator, shape, buffer_size, errors)
        with partial_output.keeping_writer(output, made_with, resume) as (out, kept):
            answers = Filter(translator, out, shape, buffer_size, kept)
            if text is not None:
                answers.file(text)
            else:
                answers.stream(standard_input(), errors=errors, size=standard_input_size())


@main.command()
@MODELS
@click.option("--src", type=FILE, help="Source text.")
@click.option("--ref", type=FILE, required=True, help="Its reference translation.")
@click.option("--hyp-out", type=FILE, help="A file to keep the translations in.")
@click.option(
    "--tokenize",
    type=click.Choice(TOKENIZERS),
    default="13a",
    show_default=True,
    help="BLEU's tokenizer; char suits Korean.",
)
@DECODING
@RUNTIME
def evaluate(
    runs: tuple[Path, ...],
    more_runs: tuple[Path, ...],
    src: Path | None,
    ref: Path,
    hyp_out: Path | None,
    tokenize: str,
    errors: str,
    device: str,
    threads: int | None,
    **decoding: Any,
) -> None:
    """Print chrF and BLEU with signature, exact match, and bits per byte.

    Under torchrun the lines are shared among the processes.
    """
    from bytenmt.cli import decoding_args, training_args
    from bytenmt.decoding.choice import choose, processes
    from bytenmt.decoding.loading import load_runs
    from bytenmt.distributed import ALONE
    from bytenmt.evaluation.scores import bits_per_byte, log_probabilities, text_scores
    from bytenmt.storage.checkpoint import load_run

    given = decoding_args.settings(decoding)
    wanted = decoding_args.engine_spec(decoding, device, threads)
    runs += more_runs
    with processes(choose(wanted).device) as group:
        check_output(hyp_out, src, ref)
        corpus = training_args.all_pairs(src, ref, errors)
        runtime = load_runs(runs, wanted, Notices())
        training_args.check_pairs(runs[0], runtime.source, src)
        hypotheses = training_args.hypotheses(decoding_args.translator(runtime, given, group), corpus)
        on = training_args.torch_device(runtime.spec.device, threads)
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


@main.command()
@MODEL
@click.option("--src", type=FILE, help="Source text.")
@click.option("--tgt", type=FILE, required=True, help="Target text to score.")
@RUNTIME
def score(run: Path, src: Path | None, tgt: Path, errors: str, device: str, threads: int | None) -> None:
    """Print the natural log-probability and the bits per byte of each target, a line each.

    An empty target has only its end to pay for, and inf bits per byte.
    """
    from bytenmt.cli import training_args
    from bytenmt.evaluation.scores import log_probabilities
    from bytenmt.storage.checkpoint import load_run

    corpus = training_args.all_pairs(src, tgt, errors)
    on = training_args.torch_device(device, threads)
    loaded = load_run(run, on)
    training_args.check_pairs(run, loaded.config.model.source, src)
    log_p = log_probabilities(loaded.model, corpus, on)
    for nats, n_bytes in zip(log_p.tolist(), corpus.target_lengths.tolist(), strict=True):
        bits = -nats / math.log(2) / n_bytes if n_bytes else math.inf
        click.echo(f"{nats:.6f}\t{bits:.6f}")
