"""The commands: parse, call one function, print.

The heavy imports stand inside the commands, so that --help is quick. Results go to stdout, all else
to stderr; every BytenmtError is one line there and exit code 1. Nothing imports this file.
"""

from __future__ import annotations

import math
import subprocess
from pathlib import Path
from typing import Any

import click

from bytenmt import __version__
from bytenmt.console import (
    DECODING,
    FILE,
    MODEL,
    RUNTIME,
    TRAINING,
    Program,
    check_output,
    dash,
    standard_input,
    writer,
)
from bytenmt.errors import BytenmtError
from bytenmt.presets import PRESETS

ARCHITECTURES = tuple(PRESETS["small"])
TOKENIZERS = ("13a", "char", "intl", "zh", "none")  # sacreBLEU's, those that need nothing else


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="bytenmt")
def main() -> None:
    """Character-level translation on raw UTF-8 bytes: no tokenizer, no vocabulary."""


@main.command()
@click.option("-o", "--output", "run", type=FILE, required=True, help="The run folder to make.")
@click.option("--arch", metavar="|".join(ARCHITECTURES), help="The architecture.")
@click.option("--src", type=FILE, multiple=True, help="Source text; left out, there is none.")
@click.option("--tgt", type=FILE, multiple=True, help="Target text, line by line with --src.")
@click.option("--tsv", type=FILE, multiple=True, help="Both in one file: source TAB target.")
@click.option(
    "--weight",
    "weights",
    type=click.FloatRange(0, 1000, min_open=True),
    multiple=True,
    help="How often the pairs of a corpus come in an epoch; one for each --tgt, then each --tsv.",
)
@click.option("--valid-src", type=FILE, help="Source text to validate on.")
@click.option("--valid-tgt", type=FILE, help="Target text to validate on.")
@click.option("--valid-tsv", type=FILE, help="Both in one file.")
@click.option("--preset", metavar="|".join(PRESETS), help="The size; small by default.")
@click.option("--config", "file", type=FILE, help="A TOML file laid over the preset.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="As train.ema=0.999.")
@TRAINING
@click.option("--init-embedding", type=FILE, help="A run whose byte embedding to start from.")
@click.option("--resume", is_flag=True, help="Go on where the run stopped; may raise its limits.")
@click.option("--resume-from", type=click.IntRange(0), metavar="UPDATE", help="Go on from this checkpoint.")
@click.option("--tensorboard", is_flag=True, help="Write the metrics for TensorBoard too.")
@RUNTIME
def train(
    run: Path,
    arch: str | None,
    src: tuple[Path, ...],
    tgt: tuple[Path, ...],
    tsv: tuple[Path, ...],
    weights: tuple[float, ...],
    valid_src: Path | None,
    valid_tgt: Path | None,
    valid_tsv: Path | None,
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

    --src and --tgt, or --tsv, may be given several times. Without a source it is a byte language model of
    the target. Under torchrun all processes train one model.
    """
    from bytenmt import prepare
    from bytenmt import train as training
    from bytenmt.distributed import process_group

    resume = resume or resume_from is not None
    on = prepare.torch_device(device, threads)
    with process_group(on) as group:
        files = prepare.training_files(src, tgt, tsv, weights)
        valid = prepare.validation_files(files, valid_src, valid_tgt, valid_tsv)
        settings += prepare.named_settings(named, files)
        config = group.first(lambda: prepare.configuration(run, resume, arch, preset, file, settings))
        if config.data.source != files[0].has_source:
            raise BytenmtError("data.source is false, so --src would be ignored: drop one of them")
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
@MODEL
@click.option("-i", "--input", type=FILE, callback=dash, help="Text file; stdin by default.")
@click.option("-o", "--output", type=FILE, callback=dash, help="File; stdout by default.")
@click.option(
    "--buffer-size",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="Lines that are translated together at most.",
)
@DECODING
@RUNTIME
def translate(
    run: Path,
    input: Path | None,
    output: Path | None,
    buffer_size: int,
    errors: str,
    device: str,
    threads: int | None,
    **decoding: Any,
) -> None:
    """Translate stdin to stdout, one line out for one line in.

    A line that comes alone is answered at once. An empty line stays empty. A file of -o is there
    when it is whole. Under torchrun the lines are shared among the processes.
    """
    from bytenmt import prepare
    from bytenmt.checkpoint import load_run
    from bytenmt.distributed import process_group

    prepare.check_decoding(decoding)
    on = prepare.torch_device(device, threads)
    with process_group(on) as group:
        check_output(output, input)
        text = prepare.text_file(input, errors) if input is not None and group.leads else None
        loaded = load_run(run, on)
        if not loaded.config.data.source:
            raise BytenmtError(f"{run} was trained without a source: it cannot translate")
        translator = prepare.translator(loaded, decoding, group)
        if not group.leads:
            translator.follow()
            return
        with writer(output) as out:
            if text is not None:
                translator.translate_file(text, out, buffer_size=buffer_size)
            else:
                translator.stream(standard_input(), out, errors=errors, buffer_size=buffer_size)


@main.command()
@MODEL
@click.option("--src", type=FILE, help="Source text; none for a run without a source.")
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
    run: Path,
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
    from bytenmt import prepare
    from bytenmt.checkpoint import load_run
    from bytenmt.config import fingerprint
    from bytenmt.distributed import process_group
    from bytenmt.evaluate import bits_per_byte, log_probabilities, text_scores

    prepare.check_decoding(decoding)
    on = prepare.torch_device(device, threads)
    with process_group(on) as group:
        check_output(hyp_out, src, ref)
        corpus = prepare.all_pairs(src, ref, errors)
        loaded = load_run(run, on)
        prepare.check_source(run, loaded, src)
        translator = prepare.translator(loaded, decoding, group)
        hypotheses = prepare.hypotheses(translator, corpus)
        log_p = log_probabilities(loaded.model, corpus, on, group=group)
    if not group.leads:
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
    parts = [f"bytenmt {__version__}", f"configuration {fingerprint(loaded.config)}"]
    parts.append(f"update {loaded.facts['update']}")
    click.echo(", ".join([*parts, *_commit()]))


@main.command()
@MODEL
@click.option("--src", type=FILE, help="Source text; none for a run without a source.")
@click.option("--tgt", type=FILE, required=True, help="Target text to score.")
@RUNTIME
def score(run: Path, src: Path | None, tgt: Path, errors: str, device: str, threads: int | None) -> None:
    """Print the natural log-probability and the bits per byte of each target, a line each.

    An empty target has only its end to pay for, and inf bits per byte.
    """
    from bytenmt import prepare
    from bytenmt.checkpoint import load_run
    from bytenmt.evaluate import log_probabilities

    corpus = prepare.all_pairs(src, tgt, errors)
    on = prepare.torch_device(device, threads)
    loaded = load_run(run, on)
    prepare.check_source(run, loaded, src)
    log_p = log_probabilities(loaded.model, corpus, on)
    for nats, n_bytes in zip(log_p.tolist(), corpus.target_lengths.tolist(), strict=True):
        bits = -nats / math.log(2) / n_bytes if n_bytes else math.inf
        click.echo(f"{nats:.6f}\t{bits:.6f}")


@main.command()
@click.argument("paths", metavar="RUN|FILE...", type=FILE, nargs=-1, required=True)
@click.option("-o", "--output", type=FILE, required=True, help="The checkpoint file to write.")
@click.option("--last", type=click.IntRange(1), metavar="K", help="The last K checkpoints of a run.")
def average(paths: tuple[Path, ...], output: Path, last: int | None) -> None:
    """Write the mean of several checkpoints' weights, a file that -m takes.

    Give one run folder, or checkpoint files of one architecture and size.
    """
    from bytenmt.average import average as write_average

    check_output(output, *paths)
    for line in write_average(paths, output, last):
        click.echo(line, err=True)


@main.command()
@click.argument("what", metavar="RUN|ARCH")
@click.option("--preset", metavar="|".join(PRESETS), help="Of an architecture; small by default.")
def info(what: str, preset: str | None) -> None:
    """Print what a model costs, and its configuration as TOML.

    RUN is a run folder, ARCH the name of an architecture. The output can be given to --config.
    """
    from bytenmt.checkpoint import read_config
    from bytenmt.config import load_config
    from bytenmt.info import describe

    if what in ARCHITECTURES:
        config = load_config(what, preset, "", [])
    elif not Path(what).is_dir():
        names = ", ".join(ARCHITECTURES)
        raise BytenmtError(f"{what} is neither a run folder nor an architecture: {names}")
    elif preset is not None:
        raise BytenmtError(f"--preset would be ignored: {what} has its own configuration")
    else:
        config = read_config(Path(what))
    click.echo(describe(config))


def _commit() -> list[str]:
    """["commit …"], with -dirty after a change, where this is a source checkout; else nothing."""
    checkout = Path(__file__).parent.parent
    if not (checkout / ".git").exists():
        return []
    command = ["git", "--no-optional-locks", "-C", str(checkout), "describe", "--always", "--dirty"]
    try:
        said = subprocess.run([*command, "--exclude=*"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return [f"commit {said.stdout.strip()}"]
