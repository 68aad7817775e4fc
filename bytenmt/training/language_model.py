"""Learning texts as streams of bytes, without a source: windows, their loss, and validation.

The state of recurrent models is carried from one window to the next without its gradient (truncated
back-propagation through time).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bytenmt.architectures.base import Model
from bytenmt.architectures.tensor_tree import map_tensors, tensors
from bytenmt.checkpoints.facts import Facts, TextFact
from bytenmt.config.schema import Config
from bytenmt.data.pair_files import PairFiles
from bytenmt.data.text_file import read_bytes, stored_path
from bytenmt.data.windows import Bytes, Streams, WindowBatch, serial_windows, shuffled_windows
from bytenmt.distributed import SINGLE_PROCESS, Group
from bytenmt.errors import ConfigError, DataError
from bytenmt.reporter import Reporter
from bytenmt.training.losses import LossInputs, batch_loss, drop_bytes, masked_loss
from bytenmt.training.precision import autocast
from bytenmt.training.translation import CPU, BatchShare
from bytenmt.utf8 import BOS

# Of text_bits:
N_CONTEXT_BYTES = 512  # read before each piece
MAX_PIECES = 64  # read at once
N_COLUMNS = 256  # bytes of each piece in a call of the model


class LanguageModelObjective:
    """The task of a byte language model: batches of windows, their gradients, and validation.

    A batch is a data.windows.WindowBatch: pieces of text of equal length. Trainer takes it in the
    place of a TranslationObjective, which has the same methods. Without texts only `gradients` and
    the state can be used.
    """

    def __init__(
        self,
        config: Config,
        texts: Sequence[Path] = (),
        valid: Path | None = None,
        device: torch.device = CPU,
        group: Group = SINGLE_PROCESS,
    ) -> None:
        """texts, valid: plain or packed files of any bytes; device: where the model is.

        Raises DataError for a text that is too short, ConfigError for batches that are too small.
        """
        self.config = config
        self.train = config.train
        self.device = device
        self.group = group
        # The state of a recurrent model after the last window, for this process' rows; None before
        # the first window.
        self.carried: Any = None
        self._carries = config.model.is_serial
        self._texts = [(path, read_bytes(path)) for path in texts]
        self._valid = None if valid is None else (valid, read_bytes(valid))
        if texts:
            self._streams = Streams([data for _, data in self._texts])
            self._n_rows = self._count_rows()

    def report(self, reporter: Reporter) -> None:
        """Tell the reporter the sizes of the training and validation texts."""
        assert self._valid is not None
        for path, data in (*self._texts, self._valid):
            reporter.say(f"{path}: {len(data):,} bytes")

    def _count_rows(self) -> int:
        """Return the rows of a batch, of all processes."""
        train = self.train
        width = train.window if self._carries else train.window + train.context
        for path, data in self._texts:
            if len(data) < width:
                raise DataError(
                    f"{path} has {len(data)} bytes, less than one window of {width}"
                    " (train.context + train.window): give more text, or lower them"
                )
        if self._valid is not None and not len(self._valid[1]):
            raise DataError(f"{self._valid[0]} is empty: give a validation text")
        n_rows = train.max_tokens // width
        if self._carries:
            n_rows = min(n_rows, self._streams.n_bytes // width)
        if n_rows < self.group.size:
            raise ConfigError(
                f"a batch holds {n_rows} windows of {width} bytes for {self.group.size} processes:"
                " raise train.max_tokens, or lower train.window"
            )
        return n_rows

    # ---- batches and gradients

    def shares(self, epoch: int, batch: int) -> Iterator[BatchShare]:
        """Yield this process' part of each batch, from batch `batch` of epoch `epoch`, without end.

        Both count from 0.
        """
        for number in count(epoch):
            for behind, window in enumerate(self._windows(number, batch), batch + 1):
                yield BatchShare(window, number, behind, window.epoch_batches)
            batch = 0

    def _windows(self, epoch: int, batch: int) -> Iterator[WindowBatch]:
        """Return this process' rows of the windows from batch `batch` on, to the epoch's end."""
        train = self.train
        rows = range(self.group.rank, self._n_rows, self.group.size)
        texts = self._streams, self._n_rows, rows
        place = train.seed, epoch, batch
        if self._carries:
            return serial_windows(*texts, train.window, *place)
        return shuffled_windows(*texts, train.context, train.window, *place)

    def gradients(
        self, model: Model[Any, Any], batches: Sequence[WindowBatch], target_bytes: int
    ) -> Tensor:
        """Run forward and backward on windows of text, which adds to the parameters' `.grad`.

        Return the summed negative log-likelihood in nats, a float64 scalar on the device. The loss
        whose gradient is taken is divided by target_bytes. A recurrent model starts from its state
        after the windows before, the attribute `carried`, which is then replaced.
        """
        nats = torch.zeros((), dtype=torch.float64, device=self.device)
        for window in (window for window in batches if len(window.read)):
            read, truth, skipped = (torch.from_numpy(part).to(self.device) for part in window[:3])
            if self.train.byte_dropout:
                read = drop_bytes(read, self.train.byte_dropout)
            state = self.carried
            if window.fresh:
                state = model.start(_memory(model, len(read)))
            with autocast(self.train, self.device):
                loss, window_nats, state = self.loss(model, read, truth, skipped, state)
            (loss / target_bytes).backward()  # type: ignore[no-untyped-call]
            nats += window_nats
            if self._carries:  # copies, since a state may be a view of all columns of the window
                self.carried = map_tensors(
                    lambda part: part.detach().clone(memory_format=torch.contiguous_format), state
                )
        return nats

    def loss(
        self, model: Model[Any, Any], read: Tensor, truth: Tensor, skipped: Tensor, state: Any
    ) -> tuple[Tensor, Tensor, Any]:
        """Return the loss of a window for the gradient, its negative log-likelihood, and the state.

        The first two are sums in nats; the state is the model's after the window. read, truth (n,
        t) uint8: bytes read and to be predicted; skipped (n,) int64: bytes at the beginning of each
        row that have no loss; state: the model's state before the window, of n rows.
        """
        logits, state = model(read, _memory(model, len(read)), state)
        real = torch.arange(read.shape[1], device=read.device) >= skipped[:, None]
        return *batch_loss(LossInputs(model, self.train, logits, read, truth, real)), state

    def state_dict(self) -> dict[str, Tensor]:
        """Return the recurrent states from which the next window starts, of all processes' rows.

        The keys "0", "1", … number the tensors of a state, whose first axis is the row of a batch;
        there are none for convolutional models. All processes must call it together.
        """
        if not self._carries:
            return {}
        state = [] if self.carried is None else [part.cpu() for part in tensors(self.carried)]
        merged: dict[str, Tensor] = {}
        for i, parts in enumerate(zip(*self.group.gather_all(state), strict=True)):
            merged[f"{i}"] = parts[0].new_zeros(sum(map(len, parts)), *parts[0].shape[1:])
            for rank, part in enumerate(parts):
                merged[f"{i}"][rank :: len(parts)] = part
        return merged

    def load_state_dict(self, model: Model[Any, Any], carried: Mapping[str, Tensor]) -> None:
        """Continue from recurrent states that state_dict has returned (`carried`).

        Raises KeyError or ValueError if they do not fit `model`, the model that is trained.
        """
        if not carried:
            return
        start = model.start(_memory(model, 1))
        expected = [(part.dtype, part.shape[1:]) for part in tensors(start)]
        stored = [carried[str(i)] for i in range(len(carried))]
        if [(part.dtype, part.shape[1:]) for part in stored] != expected:
            raise ValueError("the carried state is not that of the model")
        own_rows = slice(self.group.rank, None, self.group.size)
        parts = iter(stored)
        self.carried = map_tensors(lambda _: next(parts)[own_rows].to(self.device), start)

    # ---- validation, and the text in a checkpoint

    def score(self, model: Model[Any, Any]) -> dict[str, Any]:
        """Return {"valid_bits_per_byte": …} of the first train.valid_bytes of the validation text.

        model: in evaluation mode. All processes must call it together.
        """
        assert self._valid is not None
        text = self._valid[1][: self.train.valid_bytes]
        return {"valid_bits_per_byte": text_bits(model, text, self.device, self.group) / len(text)}

    def decode(self, model: Model[Any, Any]) -> dict[str, Any]:
        """Return an empty dictionary: without sources nothing is translated at a validation."""
        return {}

    def facts(self) -> Facts:
        """Return the paths and sizes of the texts, for the checkpoint."""
        texts = tuple(TextFact(stored_path(path), len(data)) for path, data in self._texts)
        if self._valid is None:
            return Facts(texts=texts)
        return Facts(texts=texts, valid=PairFiles(tgt=Path(stored_path(self._valid[0]))))


def _memory(model: Model[Any, Any], n: int) -> Any:
    """Return the memory of a model without a source, for n rows."""
    device = model.embedding.weight.device
    lengths = torch.zeros(n, dtype=torch.int64, device=device)
    return model.encode(torch.zeros(n, 0, dtype=torch.uint8, device=device), lengths)


@torch.no_grad()
def text_bits(
    model: Model[Any, Any], text: Bytes, device: torch.device, group: Group = SINGLE_PROCESS
) -> float:
    """Return the negative log-likelihood, in bits, of a text (n,) uint8 under a language model.

    model: in evaluation mode. All processes call it together, share the work and get the same
    number. The text is cut into up to 64 pieces; the model reads the 512 bytes before a piece as
    context only: exact for a convolutional model that depends on no more bytes, and very nearly so
    for a recurrent one.
    """
    n_rows = max(1, min(MAX_PIECES, len(text) // (2 * N_CONTEXT_BYTES)))
    each = -(-len(text) // n_rows)
    bits = torch.zeros((), dtype=torch.float64, device=device)
    own_begins = range(0, len(text), each)[group.rank :: group.size]
    begins = torch.tensor(own_begins, dtype=torch.int64, device=device)
    if len(begins):
        every = torch.from_numpy(np.array(text)).to(device)
        starts = (begins - N_CONTEXT_BYTES).clamp(min=0)
        stops = (begins + each).clamp(max=len(text))
        memory = _memory(model, len(begins))
        state = model.start(memory)
        longest = int((stops - starts).max())
        for column in range(0, longest, N_COLUMNS):
            columns = torch.arange(column, min(longest, column + N_COLUMNS), device=device)
            place = starts[:, None] + columns
            read = every[(place - 1).clamp(0, len(text) - 1)]
            read = torch.where(place == 0, BOS, read)
            logits, state = model(read, memory, state)
            counts = (place >= begins[:, None]) & (place < stops[:, None])
            target = every[place.clamp(max=len(text) - 1)]
            _, nats = masked_loss(logits, target, counts, label_smoothing=0.0)
            bits += nats / math.log(2)
    bits = bits.cpu()
    group.all_reduce(bits)
    return float(bits)
