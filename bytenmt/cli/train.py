"""The command `train`. Heavy modules are imported inside it, so that --help is quick."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bytenmt.cli import options
from bytenmt.cli.console import detail
from bytenmt.cli.languages import PAIR
from bytenmt.cli.options import ARCHITECTURES, Part, click_option, collect_given, command, plain, record
from bytenmt.cli.progress import Console, Records, told_as
from bytenmt.config.fields import Option, Port, Weight, option, options_of
from bytenmt.config.schema import TrainConfig
from bytenmt.decoding.interface import EngineSpec
from bytenmt.decoding.setting_table import SPEED
from bytenmt.errors import BytenmtError

MODEL, DATA, TRAINING, START, LOGGING = (
    "Model and configuration",
    "Training data",
    "Training",
    "Start and resume",
    "Logging",
)
Paths = tuple[Path, ...]
ARCH = Option("arch", str | None, None, "Architecture of the model.", metavar="|".join(ARCHITECTURES))


@dataclass(frozen=True)
class Texts:
    """The texts to train on and to validate on."""

    src: Paths = option((), "Source text of the training pairs, one sentence per line; may be repeated.")
    tgt: Paths = option((), "Target text of the training pairs, parallel to --src; may be repeated.")
    tsv: Paths = option((), "Training pairs as lines `source TAB target`; may be repeated.")
    text: Paths = option((), "Monolingual training text of a language model, any bytes; may be repeated.")
    tmx: Paths = option((), "Translation memory (TMX) of training pairs; needs --pair. May be repeated.")
    xliff: Paths = option((), "XLIFF file whose translated units are training pairs; may be repeated.")
    po: Paths = option((), "PO file whose translated, not fuzzy entries are training pairs.")
    weights: tuple[Weight, ...] = option(
        (),
        "How often the pairs of a corpus occur per epoch (default: 1). Give one weight per corpus, in the"
        " order --tgt, --tsv, --tmx, --xliff, --po.",
        "--weight",
    )
    valid_src: Path | None = option(None, "Source text for validation.")
    valid_tgt: Path | None = option(None, "Target text for validation, parallel to --valid-src.")
    valid_tsv: Path | None = option(None, "Validation pairs as lines `source TAB target`.")
    valid_text: Path | None = option(None, "Monolingual validation text of a language model.")


@dataclass(frozen=True)
class Start:
    """The start of a training, and its logs."""

    init_from: Path | None = option(
        None, "Run folder or weights file from which the new run takes its model and initial weights."
    )
    init_embedding: Path | None = option(
        None, "Run folder or weights file for the initial byte embedding only."
    )
    resume: bool = option(
        False, "Continue the run in -o on the texts it was started with; limits may be raised."
    )
    tensorboard: bool = option(False, "Also write the metrics for TensorBoard.", heading=LOGGING)
    log_format: str = option(
        "text",
        "Format of the log on stderr; json includes a record of the metrics.",
        choices=("text", "json"),
        heading=LOGGING,
    )
    metrics_port: Port | None = option(
        None,
        "Serve loss, learning rate and memory to Prometheus on this port of 127.0.0.1; 0 is any free port.",
        heading=LOGGING,
    )


CONFIG = Option("config", Path | None, None, "TOML file whose values override the preset's.")
OUTPUT = Option("output", Path, None, "Run folder to create.", ("-o", "--output"))


@command(
    "train",
    plain(OUTPUT, required=True),
    Part(
        [click_option(ARCH, MODEL, shell_complete=options.complete_architecture)],
        lambda values: {"arch": values.pop("arch")},
    ),
    plain(options.PRESET, CONFIG, options.SET, heading=MODEL),
    record("texts", Texts, DATA),
    plain(PAIR, heading=DATA),
    options.ERRORS,
    collect_given("limits", options_of(TrainConfig).values(), TRAINING),
    record("start", Start, START),
    record("machine", EngineSpec, SPEED, leave_out=("engine", "precision", "reverse")),
)
def train(
    output: Path,
    arch: str | None,
    preset: str | None,
    config: Path | None,
    assignments: tuple[str, ...],
    texts: Texts,
    pair: str | None,
    errors: str,
    limits: dict[str, Any],
    start: Start,
    machine: EngineSpec,
) -> None:
    """Train a translation model or a language model.

    A translation model is trained on parallel text: --src and --tgt, --tsv, --tmx, --xliff and --po, which
    may be combined and repeated. A byte language model is trained on --text. Text files may be packed (.gz,
    .xz, .zst). Options of the training are keys of the configuration, whose defaults a preset may change.
    Under torchrun all processes train one model.
    """
    import torch

    from bytenmt.cli import training_pairs
    from bytenmt.cli.inputs import torch_device
    from bytenmt.distributed import process_group
    from bytenmt.training import arguments
    from bytenmt.training import run as training

    device = torch_device(machine.device, None)
    with told_as(start.log_format) as console, process_group(device) as group:
        documents = training_pairs.conversions(output, texts.tmx, texts.xliff, texts.po, pair)
        tsv = texts.tsv + tuple(one.table for one in documents)
        files, valid = arguments.files_to_train_on(
            output,
            start.resume,
            (texts.src, texts.tgt, tsv, texts.text),
            texts.weights,
            *(texts.valid_src, texts.valid_tgt, texts.valid_tsv, texts.valid_text),
        )
        whole_config = group.on_leader(
            lambda: arguments.configuration(
                output,
                start.resume,
                arch,
                preset,
                config,
                arguments.settings_tree(assignments, limits),
                files[0].has_source,
                start.init_from,
                device.type == "cuda",
            )
        )
        warning = group.on_leader(lambda: arguments.check_resume(output) if start.resume else None)
        if warning is not None:
            console.warn(warning)
        for line in group.on_leader(lambda: training_pairs.convert(documents)):
            console.say(line)
        detail(f"training on {device}, PyTorch {torch.__version__}", console.say)
        with _watching(console, start.metrics_port if group.is_leader else None) as watch:
            outcome = training.train(
                output,
                whole_config,
                files=files,
                valid=valid,
                device=device,
                errors=errors,
                resume=start.resume,
                init_embedding=start.init_embedding,
                init_from=start.init_from,
                tensorboard=start.tensorboard,
                group=group,
                reporter=console,
                watch=watch,
                threads=machine.threads,
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

    def watch(metrics: Mapping[str, float | str]) -> None:
        latest.update(metrics)
        if isinstance(console, Records):
            console.tell("metrics", "info", **metrics)

    if port is None:
        yield watch
        return
    if importlib.util.find_spec("prometheus_client") is None:
        raise BytenmtError("--metrics-port needs a missing package: pip install prometheus-client")
    with serve_metrics(port, latest.registry()) as address:
        console.say(f"metrics at {address}")
        yield watch
