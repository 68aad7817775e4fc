"""Runs, loaded and made ready to decode by an engine.

PyTorch is imported only for the engines that need it: nothing here imports it for the numba engine. Knows
runs, models and engines; knows no lines, and not what suits the machine, which choice.py does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bytenmt.config.facts import Facts, SearchDefaults
from bytenmt.config.schema import Config, architecture
from bytenmt.decoding.choice import choose
from bytenmt.decoding.engines import EngineMaker, Made, Maker, compiled, in_pytorch
from bytenmt.decoding.interface import AUTO, OFF, EngineSpec, Options
from bytenmt.decoding.reading import Attention, Reader
from bytenmt.errors import BytenmtError, CheckpointError
from bytenmt.reporter import SILENT, Reporter
from bytenmt.speculative.table import FILE, Speculation, check_serial
from bytenmt.speculative.table import read as read_drafts
from bytenmt.storage.weights import is_weights_file, read_run
from bytenmt.utf8 import LONGEST_CHARACTER

if TYPE_CHECKING:
    import torch

    from bytenmt.architectures.base import Model


FEW_SENTENCES = 16  # that NumPy decodes sooner than the kernels are compiled


class Run(NamedTuple):
    """A run that was loaded. file: of its weights; precision: of the matrices in it."""

    file: Path
    config: Config
    facts: Facts
    precision: str


@dataclass(frozen=True)
class Runtime:
    """Runs, loaded and ready to decode. maker: Options -> a function that makes an engine for a capacity;
    source: whether they were trained with one; max_source_bytes: of the lines that all of them know;
    runs: what they are, empty for models in memory; spec: of their engine, without AUTO but for precision and
    draft; made: by their engine, None for models in memory."""

    maker: Callable[[Options], EngineMaker]
    source: bool
    max_source_bytes: int
    runs: Sequence[Run] = ()
    spec: EngineSpec = EngineSpec("torch", "cpu")
    made: Made | None = None

    def reader(self) -> Reader:
        """What reads given texts, in fp32 unless another precision was asked for. Of loaded runs."""
        assert self.made is not None
        return self.made.reader()

    def attention(self) -> list[Attention]:
        """What tells where each run with attention attends. Of loaded runs."""
        assert self.made is not None
        return self.made.attention()

    def prepare(self, n_sentences: int) -> None:
        """Wait for kernels that are being compiled where so many sentences would take NumPy longer."""
        if n_sentences > FEW_SENTENCES and self.made is not None and self.made.compilation is not None:
            self.made.compilation.wait()

    @property
    def search(self) -> SearchDefaults | None:
        """The defaults of a search of the first run that has some."""
        return next((run.facts.search for run in self.runs if run.facts.search is not None), None)


def load_runs(
    paths: Sequence[str | Path], spec: EngineSpec, reporter: Reporter = SILENT, at_once: bool = False
) -> Runtime:
    """Load run folders or weights files, of any architectures, that decide together by the mean of their
    probabilities. reporter: is told what a user may not expect. at_once: do not wait for kernels that are to
    be compiled first where the engine is left to the machine, see engines.compiled. Raises CheckpointError
    for a file, BytenmtError where they cannot be joined or the engine cannot be had."""
    if not paths:
        raise ValueError("no run: give a run folder or a weights file")
    read = [read_run(Path(path)) for path in paths]
    runs = [Run(file, one.config, one.facts, one.precision) for file, one in read]
    source = runs[0].config.model.source
    for path, run in zip(paths, runs, strict=True):
        if run.config.model.source != source:
            raise BytenmtError(
                f"{paths[0]} was trained {'with' if source else 'without'} a source and {path}"
                f" {'without' if source else 'with'}: they cannot be asked together"
            )
    limit = max(LONGEST_CHARACTER, min(run.config.data.max_source_bytes for run in runs))
    chosen = _able(spec, runs, reporter)
    speculation = _speculation([Path(path) for path in paths], runs, chosen, reporter)
    if chosen.engine == "numba":
        made = compiled(read, chosen, reporter, at_once and spec.engine == AUTO)
    else:
        made = in_pytorch(read, chosen, reporter)
    maker = _drafting(made.maker, speculation, reporter)
    return Runtime(maker, source, limit, runs, chosen, made)


def _able(spec: EngineSpec, runs: Sequence[Run], reporter: Reporter) -> EngineSpec:
    """The engine that decodes the runs: what is wanted or suits the machine; plain PyTorch in place of the
    numba engine where that was not asked for and has no program for one of them."""
    chosen = choose(spec)
    if chosen.engine != "numba":
        return chosen
    from bytenmt.architectures.registry import has_program

    unknown = sorted({architecture(run.config.model) for run in runs if not has_program(run.config.model)})
    if not unknown:
        return chosen
    why = f"the numba engine has no program for {' and '.join(unknown)}"
    if spec.engine != AUTO:
        raise BytenmtError(f"--engine {spec.engine}: {why}: use --engine torch, or auto")
    instead = choose(replace(spec, engine="torch"))
    reporter.say(f"bytenmt: decoding by --engine torch: {why}")
    return instead


def _speculation(
    paths: Sequence[Path], runs: Sequence[Run], spec: EngineSpec, reporter: Reporter
) -> Speculation | None:
    """The drafts of the first run that has some; None where there are none, or none are wanted. Raises
    BytenmtError where they are insisted on and cannot be had."""
    if spec.draft == OFF:
        return None
    most = None if isinstance(spec.draft, str) else spec.draft
    if most is not None:
        for path, run in zip(paths, runs, strict=True):
            check_serial(run.config.model, f"--draft {most}: {path}")
    elif any(run.config.model.is_serial for run in runs):
        return None
    folders = [path.resolve().parent.parent if is_weights_file(path) else path for path in paths]
    damaged = False
    for folder, run in zip(folders, runs, strict=True):
        if (folder / FILE).is_file():
            try:
                return Speculation(read_drafts(folder, run.config, run.facts), most)
            except CheckpointError as error:
                reporter.warn(f"decoding without drafts: {error}")
                damaged = True
    if most is not None and not damaged:
        raise BytenmtError(
            f"--draft {most}: {folders[0]} has no {FILE}: make it by `bytenmt draft {folders[0]}`"
        )
    return None


def _drafting(
    make: Maker, speculation: Speculation | None, reporter: Reporter
) -> Callable[[Options], EngineMaker]:
    """Engines with drafts where one text is followed and nothing is forbidden for the whole of it."""

    def maker(options: Options) -> EngineMaker:
        if speculation is None or (options.beam == 1 and not options.no_repeat_ngram_size):
            return make(options, speculation)
        if speculation.most is not None:
            option = f"--beam-size {options.beam}" if options.beam > 1 else "--no-repeat-ngram-size"
            reporter.warn(f"--draft {speculation.most} has no effect: {option} takes one byte a step")
        return make(options, None)

    return maker


def of_models(models: Sequence[Model[Any, Any]], device: torch.device, source: bool = True) -> Runtime:
    """Models in evaluation mode on their device, for the torch engine; source: trained with one."""
    from bytenmt.decoding.pytorch.engine import TorchEngine

    if any(model.training for model in models):
        raise ValueError("a model is in training mode: call its eval() first")
    spec = EngineSpec("torch", device.type)
    return Runtime(
        lambda options: partial(TorchEngine, models, options, device=device), source, 1000, spec=spec
    )
