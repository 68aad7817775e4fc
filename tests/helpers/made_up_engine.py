"""An engine without a model, whose answers are known; and small random models for engines."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from small_runs import SMALL

from bytenmt.architectures.base import Model
from bytenmt.architectures.registry import build_model
from bytenmt.checkpoints.checkpoint import model_tensors, save_checkpoint
from bytenmt.checkpoints.facts import Facts
from bytenmt.checkpoints.weights import CONFIG
from bytenmt.config.schema import Config, config_toml, load_config
from bytenmt.decoding.engine import Engine
from bytenmt.decoding.interface import Hypothesis, Request, SearchOptions
from bytenmt.decoding.loading import runtime_from_models
from bytenmt.sentinels import SENTINELS
from bytenmt.translation.settings import Settings
from bytenmt.translation.translator import Translator
from bytenmt.utf8 import whole_characters


def made_up_text(request: Request, which: int = 0) -> bytes:
    """The prefix, the source in capitals and a number, cut off at the limit between characters.

    Then follow the sentinels that were cut off.
    """
    source = request.source or b"nothing"
    text = request.prefix + source.upper() + b"%d" % (request.number + which)
    text = whole_characters(text[: request.limit])
    return text + bytes(byte for byte in source if byte in SENTINELS and byte not in text)


class MadeUpEngine(Engine):
    """One byte a step. Notes what it was asked for in `admitted`, one list a call."""

    def __init__(
        self, capacity: int, options: SearchOptions, admitted: list[list[Request]]
    ) -> None:
        self.capacity = capacity
        self.options = options
        self.admitted = admitted
        self.running: dict[int, tuple[Request, int]] = {}
        self.n_handles = 0

    def room(self) -> int:
        return self.capacity - len(self.running)

    def admit(self, requests: list[Request]) -> list[int]:
        assert len(requests) <= self.room()
        self.admitted.append(requests)
        handles = []
        for request in requests:
            self.running[self.n_handles] = (request, 0)
            handles.append(self.n_handles)
            self.n_handles += 1
        return handles

    def advance(self, n_steps: int) -> None:
        for handle, (request, step) in self.running.items():
            self.running[handle] = (request, step + n_steps)

    def finished(self) -> list[tuple[int, list[Hypothesis]]]:
        running = self.running.items()
        done = [h for h, (request, step) in running if step > len(made_up_text(request))]
        return [(handle, self._results(self.running.pop(handle)[0])) for handle in done]

    def drop(self, handle: int) -> None:
        del self.running[handle]

    def so_far(self, handle: int) -> bytes:
        request, step = self.running[handle]
        return made_up_text(request)[:step]

    def _results(self, request: Request) -> list[Hypothesis]:
        results = []
        for k in range(self.options.n_best):
            text = made_up_text(request, k)
            results.append(Hypothesis(text, -1.0 - k, (-1.0 - k) / (len(text) + 1)))
        return results


def made_up_translator(
    admitted: list[list[Request]] | None = None, languages: tuple[str, ...] = (), **named: Any
) -> Translator:
    """A Translator of this engine, with settings by name.

    It keeps spans where its settings name them, and splits lines into sentences where it has
    languages.
    """
    settings = Settings.from_dict(named)
    notes = [] if admitted is None else admitted
    keep = settings.keep if settings.needs_sentinels else None
    return Translator(
        lambda capacity: MadeUpEngine(capacity, settings.search, notes),
        replace(settings, keep=keep, languages=languages),
    )


SHORT: dict[str, Any] = {"max_len_a": 0.01, "max_len_b": 9}


def small_config(arch: str, *settings: str) -> Config:
    return load_config(arch, "tiny", [*SMALL[arch], "model.d_embedding=8", *settings])


def small_model(arch: str, seed: int = 0, *settings: str) -> Model[Any, Any]:
    """Random float64 weights, large enough that outputs differ and end at different lengths."""
    torch.manual_seed(seed)
    model = build_model(small_config(arch, *settings).model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.6)
    return model.double().eval()


def small_translator(arch: str = "luong", **options: Any) -> Translator:
    """Make a translator of a random model into at most nine bytes.

    options: its settings.
    """
    runtime = runtime_from_models([small_model(arch)], torch.device("cpu"))
    return Translator.from_runtime(runtime, **{**SHORT, **options})


def make_run(
    folder: Path,
    arch: str = "luong",
    seed: int = 0,
    settings: tuple[str, ...] = (),
    facts: Facts | None = None,
) -> Path:
    """A run folder as training leaves it, of such weights."""
    folder.mkdir(parents=True)
    config = small_config(arch, *settings)
    model = small_model(arch, seed, *settings).float()
    (folder / CONFIG).write_text(config_toml(config), encoding="utf-8")
    save_checkpoint(folder, 70, model_tensors(model), {}, config, facts or Facts(), best=True)
    return folder


def warm_up(folder: Path) -> None:
    """Compile the decode kernels where the disk has none yet: the program says so once."""
    Translator.load(make_run(folder / "warm"), device="cpu").translate(["a"])
