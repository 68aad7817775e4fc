"""The command `train`.

Heavy modules are imported inside the command, so that --help is quick.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from bytenmt.cli.console import Command, detail, standard_input
from bytenmt.cli.documents.training_pairs import OPTIONS as DOCUMENTS
from bytenmt.cli.options import ARCH, COUNT_OR_NONE, FILE, RUNTIME, TEXTS, options, preset_option, within
from bytenmt.cli.progress import Console, Records, told_as
from bytenmt.config.bounds import TRAINING as LEARNT
from bytenmt.config.bounds import Bounds
from bytenmt.config.spacing import EXPECTED, check_spacing
from bytenmt.errors import BytenmtError, printable


class Every(click.ParamType):  # type: ignore[type-arg]  # which is generic in the latest alone
    """A click type for a number of updates or a time."""

    name = "UPDATES|TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        given = int(value) if re.fullmatch("[0-9]{1,9}", str(value)) else str(value)
        try:
            check_spacing(self.name, given)
        except ValueError:
            self.fail(f"{printable(value)[:40]!r} is none: {EXPECTED}.", param, ctx)
        return given


# Short names of `--set train.…`; left out, they are None and the configuration holds.
TRAINING = options(
    click.option("--lr", type=within(LEARNT["lr"]), help="Learning rate at its highest."),
    click.option(
        "--max-tokens", type=within(LEARNT["max_tokens"]), help="Bytes of a batch, over all processes."
    ),
    click.option("--update-freq", type=within(LEARNT["update_freq"]), help="Batches an update."),
    click.option("--max-updates", type=within(LEARNT["max_updates"]), help="Updates in all; 0 is no limit."),
    click.option(
        "--max-epochs",
        type=within(LEARNT["max_epochs"]._replace(open=True)),
        help="Passes over the training text in all.",
    ),
    click.option(
        "--max-minutes",
        type=within(LEARNT["max_minutes"]._replace(open=True)),
        help="Minutes of training in all, resumed or not.",
    ),
    click.option(
        "--max-cpu-minutes",
        type=within(LEARNT["max_cpu_minutes"]._replace(open=True)),
        help="The same in CPU minutes of all processes and threads, on a machine that others use too.",
    ),
    click.option("--patience", type=within(LEARNT["patience"]), help="Validations to wait for a better one."),
    click.option(
        "--valid-every",
        type=Every(),
        help="Updates or time between validations, as 500 or 2m: the defaults, 2m where the limit is"
        " a time and neither --patience nor the plateau schedule counts validations.",
    ),
    click.option(
        "--save-every",
        type=Every(),
        help="The same between checkpoints; by default 5m where the limit is a time, else 500.",
    ),
    click.option("--seed", type=within(LEARNT["seed"]), help="Of all that is random."),
    click.option(
        "--draft",
        is_flag=True,
        default=None,
        help="Count at the end which bytes follow which, for `translate --draft`; convolutional models.",
    ),
)


@click.command(cls=Command)
@click.option("-o", "--output", "run", type=FILE, required=True, help="The run folder to make.")
@ARCH
@TEXTS
@DOCUMENTS
@preset_option("The size; small by default. fairseq, iwslt, dilated: of convs2s alone.")
@click.option("--config", "file", type=FILE, help="A TOML file laid over the preset.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="As train.ema=0.999.")
@TRAINING
@click.option(
    "--init-from", type=FILE, help="A run or checkpoint file whose weights and model to start from."
)
@click.option("--init-embedding", type=FILE, help="A run whose byte embedding to start from.")
@click.option(
    "--resume", is_flag=True, help="Go on where the run stopped, with its own texts; may raise its limits."
)
@click.option("--resume-from", type=COUNT_OR_NONE, metavar="UPDATE", help="Go on from this checkpoint.")
@click.option("--tensorboard", is_flag=True, help="Write the metrics for TensorBoard too.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Of the lines on stderr; json has a record of the metrics too.",
)
@click.option(
    "--metrics-port",
    type=within(Bounds(0, 65535)),
    help="Show loss, rate and memory to Prometheus at this port of this machine; 0: a free one.",
)
@RUNTIME
def train(
    run: Path,
    arch: str | None,
    src: tuple[Path, ...],
    tgt: tuple[Path, ...],
    tsv: tuple[Path, ...],
    text: tuple[Path, ...],
    weights: tuple[float, ...],
    tmx: tuple[Path, ...],
    xliff: tuple[Path, ...],
    po: tuple[Path, ...],
    pair: str | None,
    parquet: tuple[Path, ...],
    columns: str | None,
    valid_src: Path | None,
    valid_tgt: Path | None,
    valid_tsv: Path | None,
    valid_text: Path | None,
    preset: str | None,
    file: Path | None,
    settings: tuple[str, ...],
    init_from: Path | None,
    init_embedding: Path | None,
    resume: bool,
    resume_from: int | None,
    tensorboard: bool,
    log_format: str,
    metrics_port: int | None,
    errors: str,
    device: str,
    threads: int | None,
    **named: Any,
) -> None:
    """Train a model on raw parallel text, or on text alone.

    Files are plain or packed (.gz, .xz, .zst). --src and --tgt, --tsv, --tmx, --xliff, --po and
    --parquet may be given several times; or --text, whose bytes are learnt as one stream without a source: a
    byte language model. Under torchrun all processes train one model.

    --tsv - learns pairs as they come over standard input, which need not end: window by window of
    data.stream_window lines, shuffled and sorted by length. --resume wants the same stream from its start and
    skips what was used. A text that comes again and again, in windows of its own length, is learnt as from
    a file, to the bit.
    """
    import torch

    from bytenmt.api import training_arguments as training_args
    from bytenmt.cli.documents import training_pairs
    from bytenmt.cli.inputs import torch_device
    from bytenmt.data.corpus import PairFiles
    from bytenmt.distributed import process_group
    from bytenmt.training import run as training

    resume = resume or resume_from is not None
    with told_as(log_format) as console, process_group(on := torch_device(device, None)) as group:
        documents = training_pairs.conversions(run, tmx, xliff, po, pair, parquet, columns)
        tsv += tuple(one.table for one in documents)
        files, valid = training_args.files_to_train_on(
            run, resume, (src, tgt, tsv, text), weights, valid_src, valid_tgt, valid_tsv, valid_text
        )
        if files[0].tsv == training_args.STREAM:
            files = [PairFiles(stream=standard_input())]
        source = files[0].has_source
        config = group.on_leader(
            lambda: training_args.configuration(
                run,
                resume,
                arch,
                preset,
                file,
                training_args.settings_tree(settings, named),
                source,
                init_from,
            )
        )
        warning = group.on_leader(lambda: training_args.check_resume(run, resume_from) if resume else None)
        if warning is not None:
            console.warn(warning)
        for line in group.on_leader(lambda: training_pairs.convert(documents, errors)):
            console.say(line)
        detail(f"training on {on}, PyTorch {torch.__version__}", console.say)
        with _watching(console, metrics_port if group.is_leader else None) as watch:
            outcome = training.train(
                run,
                config,
                files=files,
                valid=valid,
                device=on,
                errors=errors,
                resume=resume,
                resume_from=resume_from,
                init_embedding=init_embedding,
                init_from=init_from,
                tensorboard=tensorboard,
                group=group,
                reporter=console,
                watch=watch,
                threads=threads,
            )
        if outcome.signal:
            sys.exit(128 + outcome.signal)


@contextmanager
def _watching(console: Console, port: int | None) -> Iterator[Callable[[Mapping[str, float | str]], None]]:
    """Yield a function that passes records of metrics to a JSON log and, with a port, to Prometheus.

    Raises BytenmtError where the port is taken or prometheus-client is missing.
    """
    from bytenmt.prometheus import serve_metrics
    from bytenmt.training.metrics import LatestMetrics

    latest = LatestMetrics()

    def watch(record: Mapping[str, float | str]) -> None:
        latest.update(record)
        if isinstance(console, Records):
            console.tell("metrics", "info", **record)

    if port is None:
        yield watch
        return
    if importlib.util.find_spec("prometheus_client") is None:
        raise BytenmtError("--metrics-port needs a package that is not here: pip install prometheus-client")
    with serve_metrics(port, latest.registry()) as address:
        console.say(f"metrics at {address}")
        yield watch
