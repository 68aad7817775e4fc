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

from bytenmt.cli.console import Command, detail
from bytenmt.cli.documents.training_pairs import OPTIONS as DOCUMENTS
from bytenmt.cli.options import (
    ARCH,
    FILE,
    MACHINE,
    TEXTS,
    errors_option,
    headed,
    preset_option,
    within,
)
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
            self.fail(f"{printable(value)[:40]!r} is not an interval: {EXPECTED}.", param, ctx)
        return given


# Short names of `--set train.…`; left out, they are None and the configuration holds.
TRAINING = headed(
    "Training",
    click.option("--lr", type=within(LEARNT["lr"]), help="Peak learning rate (default: that of the preset)."),
    click.option(
        "--max-tokens",
        type=within(LEARNT["max_tokens"]),
        help="Batch size in bytes, source and target, padding included, over all processes (default: that of"
        " the preset).",
    ),
    click.option(
        "--update-freq",
        type=within(LEARNT["update_freq"]),
        help="Number of batches per update, whose gradients are accumulated (default: 1).",
    ),
    click.option(
        "--max-updates",
        type=within(LEARNT["max_updates"]),
        help="Stop after this number of updates; 0 is no limit (default: 20000).",
    ),
    click.option(
        "--max-epochs",
        type=within(LEARNT["max_epochs"]._replace(open=True)),
        help="Stop after this number of passes over the training text.",
    ),
    click.option(
        "--max-minutes",
        type=within(LEARNT["max_minutes"]._replace(open=True)),
        help="Stop after this number of minutes, summed over all resumptions of the run.",
    ),
    click.option(
        "--patience",
        type=within(LEARNT["patience"]),
        help="Early stopping: stop after this number of validations without improvement; 0 is never (default:"
        " 0).",
    ),
    click.option(
        "--valid-every",
        type=Every(),
        help="Interval between validations in updates (500) or time (90s, 2m). Default: 500 updates; 2m if"
        " the run has a time limit and neither --patience nor the plateau schedule.",
    ),
    click.option(
        "--save-every",
        type=Every(),
        help="Interval between checkpoints in updates (500) or time (90s, 5m). Default: 500 updates; 5m if"
        " the run has a time limit.",
    ),
    click.option("--seed", type=within(LEARNT["seed"]), help="Random seed of the training (default: 1)."),
)


@click.command(cls=Command)
@click.option("-o", "--output", "run", type=FILE, required=True, help="Run folder to create.")
@headed(
    "Model and configuration",
    ARCH,
    preset_option("Size and training settings (default: small)."),
    click.option("--config", "file", type=FILE, help="TOML file whose values override the preset's."),
    click.option(
        "--set",
        "settings",
        metavar="KEY=VALUE",
        multiple=True,
        help="Set a configuration key, such as train.ema=0.999; overrides --config. May be repeated.",
    ),
)
@TEXTS
@DOCUMENTS
@headed("Training data", errors_option())
@TRAINING
@headed(
    "Start and resume",
    click.option(
        "--init-from",
        type=FILE,
        help="Run folder or weights file from which the new run takes its model and initial weights.",
    ),
    click.option(
        "--init-embedding", type=FILE, help="Run folder or weights file for the initial byte embedding only."
    ),
    click.option(
        "--resume",
        is_flag=True,
        help="Continue the run in -o on the texts it was started with; limits may be raised.",
    ),
)
@headed(
    "Logging",
    click.option("--tensorboard", is_flag=True, help="Also write the metrics for TensorBoard."),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        help="Format of the log on stderr; json includes a record of the metrics (default: text).",
    ),
    click.option(
        "--metrics-port",
        type=within(Bounds(0, 65535)),
        help="Serve loss, learning rate and memory to Prometheus on this port of 127.0.0.1; 0 is any free"
        " port.",
    ),
)
@MACHINE
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
    tensorboard: bool,
    log_format: str,
    metrics_port: int | None,
    errors: str,
    device: str,
    threads: int | None,
    **named: Any,
) -> None:
    """Train a translation model or a language model.

    A translation model is trained on parallel text: --src and --tgt, --tsv, --tmx, --xliff and --po, which
    may be combined and repeated. A byte language model is trained on --text. Text files may be packed (.gz,
    .xz, .zst). Under torchrun all processes train one model.
    """
    import torch

    from bytenmt.cli.documents import training_pairs
    from bytenmt.cli.inputs import torch_device
    from bytenmt.distributed import process_group
    from bytenmt.training import arguments as training_args
    from bytenmt.training import run as training

    with told_as(log_format) as console, process_group(on := torch_device(device, None)) as group:
        documents = training_pairs.conversions(run, tmx, xliff, po, pair)
        tsv += tuple(one.table for one in documents)
        files, valid = training_args.files_to_train_on(
            run, resume, (src, tgt, tsv, text), weights, valid_src, valid_tgt, valid_tsv, valid_text
        )
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
                on.type == "cuda",
            )
        )
        warning = group.on_leader(lambda: training_args.check_resume(run) if resume else None)
        if warning is not None:
            console.warn(warning)
        for line in group.on_leader(lambda: training_pairs.convert(documents)):
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
        raise BytenmtError("--metrics-port needs a missing package: pip install prometheus-client")
    with serve_metrics(port, latest.registry()) as address:
        console.say(f"metrics at {address}")
        yield watch
