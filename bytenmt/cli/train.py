"""The command `train`. Heavy modules are imported inside it, so that --help is quick."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any, ClassVar

from bytenmt.cli.console import CONSOLE
from bytenmt.cli.options import ARCHITECTURES, MACHINE, PresetOptions, command, given_options
from bytenmt.config.fields import Weight, option, options_of
from bytenmt.config.train_section import TrainConfig
from bytenmt.decoding.interface import EngineSpec
from bytenmt.reporter import SILENT

Paths = tuple[Path, ...]


@dataclass(frozen=True, kw_only=True)
class RunOptions(PresetOptions):
    """The options of `bytenmt train` on the run folder, the model, and its initial weights."""

    heading: ClassVar[str] = "Run and model"

    output: Path = option(MISSING, "Run folder to create.", "-o", "--output")
    arch: str | None = option(None, "Architecture of the model.", metavar="|".join(ARCHITECTURES))
    config: Path | None = option(None, "TOML file whose values override the preset's.")
    init_from: Path | None = option(
        None,
        "Run folder or weights file from which the new run takes its model and initial weights.",
    )
    resume: bool = option(
        False, "Continue the run in -o on the texts it was started with; limits may be raised."
    )


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """The options of `bytenmt train` on the texts to train on and to validate on."""

    heading: ClassVar[str] = "Training data"

    src: Paths = option(
        (), "Source text of the training pairs, one sentence per line; may be repeated."
    )
    tgt: Paths = option(
        (), "Target text of the training pairs, parallel to --src; may be repeated."
    )
    tsv: Paths = option((), "Training pairs as lines `source TAB target`; may be repeated.")
    text: Paths = option(
        (), "Monolingual training text of a language model, any bytes; may be repeated."
    )
    weights: tuple[Weight, ...] = option(
        (),
        "How often the pairs of a corpus occur per epoch (default: 1). Give one weight per corpus,"
        " in the order --tgt, --tsv.",
        "--weight",
    )
    valid_src: Paths = option(
        (), "Source text for validation; may be repeated: the mean over all texts counts."
    )
    valid_tgt: Paths = option(
        (), "Target text for validation, parallel to --valid-src; may be repeated."
    )
    valid_tsv: Paths = option((), "Validation pairs as lines `source TAB target`; may be repeated.")
    valid_text: Path | None = option(None, "Monolingual validation text of a language model.")


@command("train", given_options("limits", options_of(TrainConfig).values(), "Training"), MACHINE)
def train(
    start: RunOptions, texts: TextOptions, limits: dict[str, Any], machine: EngineSpec
) -> None:
    """Train a translation model or a language model.

    A translation model is trained on parallel text: --src and --tgt, and --tsv, which may be
    combined and repeated. A byte language model is trained on --text. Text files may be packed
    (.gz, .xz, .zst). Options of the training are keys of the configuration, whose defaults a preset
    may change. Under torchrun all processes train one model.
    \f
    limits: the given keys of the configuration section `train`, such as {"max_minutes": 60}.
    machine: the device and threads.
    """
    import torch

    from bytenmt.api import runs
    from bytenmt.distributed import pick_device, process_group

    device = pick_device(machine.device)
    options = {**vars(start), **vars(texts), **limits}
    output = options.pop("output")
    settings = options.pop("assignments")
    with process_group(device) as group:
        reporter = CONSOLE if group.is_leader else SILENT
        if group.is_leader:
            CONSOLE.detail(f"training on {device}, PyTorch {torch.__version__}")
        options |= {"device": machine.device, "threads": machine.threads, "settings": settings}
        try:
            runs.train(output, **options, reporter=reporter, group=group)
        except KeyboardInterrupt as error:
            if not error.args:  # else the loop has told what is saved, or that nothing will be
                reporter.say("stopped before the first update; run the same command again")
            raise
