"""Text as subwords: SentencePiece trained on the training text alone, and batches of ids.

Text is not Unicode-normalised; characters outside the vocabulary are encoded as bytes.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bytenmt.config.schema import DataConfig
from bytenmt.data.augment.augmenter import Augmenter
from bytenmt.data.batches import batches
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.epoch_plan import epoch_plan
from bytenmt.data.pair_files import PairFiles
from bytenmt.errors import BytenmtError, DataError
from tools.extras import import_package
from tools.rival.model import BOS, EOS

Ids = npt.NDArray[np.int32]
PIECES = "pieces.model"
BATCH_BYTES = 4000  # size of the batches for augmentation


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file; only a line feed ends one. Raises DataError."""
    try:
        text = path.read_bytes().decode(errors="replace")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    return text.removesuffix("\n").split("\n") if text else []


def train_pieces(lines: Iterable[str], size: int, kind: str) -> bytes:
    """Train a SentencePiece model of at most `size` pieces, with 256 bytes, shared by both sides.

    kind: unigram or bpe. Raises BytenmtError where the text is too small.
    """
    written = io.BytesIO()
    try:
        import_package("sentencepiece", "rival").SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=written,
            vocab_size=size,
            model_type=kind,
            hard_vocab_limit=False,
            byte_fallback=True,
            normalization_rule_name="identity",
            num_threads=1,
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        raise BytenmtError(f"no {kind} of {size} pieces: {' '.join(str(error).split())}") from None
    return written.getvalue()


class TrainingText:
    """The pairs of every epoch as in bytenmt's training: mixed by weight and augmented."""

    def __init__(self, files: Sequence[PairFiles], data: DataConfig, seed: int) -> None:
        """Open the files. Raises BytenmtError where they cannot be read."""
        self._corpus = ParallelCorpus.open_all(files, data.max_source_bytes, data.max_target_bytes)
        self._corpus.require_pairs()
        self._augmenter = Augmenter(self._corpus, data, seed)
        self._seed = seed
        self.is_fixed = not data.augmentations and all(one.weight == 1 for one in files)

    def lines(self, epoch: int) -> tuple[list[str], list[str]]:
        """Return an epoch's sources and targets; all epochs are the same where is_fixed."""
        if self.is_fixed:
            order = range(len(self._corpus))
            sources = [self._corpus.source(k).decode() for k in order]
            return sources, [self._corpus.target(k).decode() for k in order]
        sources = []
        targets = []
        corpus = self._augmenter.corpus(epoch)
        lengths = (corpus.source_lengths, corpus.target_lengths)
        mixed: Any = {"bounds": corpus.bounds, "weights": [part.weight for part in corpus.parts]}
        plan = epoch_plan(*lengths, BATCH_BYTES, self._seed, epoch, **mixed)
        for data in batches(corpus, plan, change=partial(self._augmenter.change, epoch=epoch)):
            for source, n_source, target, n_target in zip(*data, strict=True):
                sources.append(source[: n_source - 1].tobytes().decode())
                targets.append(target[1:n_target].tobytes().decode())
        return sources, targets


class SubwordModel:
    """A SentencePiece model: converts between text, ids and piece names."""

    def __init__(self, model: bytes) -> None:
        package = import_package("sentencepiece", "rival")
        self._processor = package.SentencePieceProcessor(model_proto=model)

    @classmethod
    def load(cls, folder: Path) -> SubwordModel:
        """Load the model of a run folder. Raises DataError."""
        try:
            return cls((folder / PIECES).read_bytes())
        except OSError as error:
            raise DataError(f"cannot read {folder / PIECES}: {error.strerror}") from None

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    def ids(self, lines: Sequence[str]) -> list[Ids]:
        """Return the ids of each line, without EOS."""
        found = self._processor.encode(list(lines), num_threads=1)
        return [np.array(line, np.int32) for line in found]

    def names(self, lines: Sequence[str]) -> list[list[str]]:
        """Return the piece names of each line, without EOS."""
        found: list[list[str]] = self._processor.encode(list(lines), out_type=str, num_threads=1)
        return found

    def vocabulary(self) -> list[str]:
        """Return the name of every id."""
        return [str(self._processor.id_to_piece(i)) for i in range(len(self))]

    def text(self, pieces: Sequence[Sequence[int]] | Sequence[Sequence[str]]) -> list[str]:
        """Return lines decoded from ids or names; invalid UTF-8 becomes U+FFFD."""
        return [str(self._processor.decode(list(line))) for line in pieces]


class SubwordPairs(NamedTuple):
    """Ids of both sides of a corpus, without EOS, and the UTF-8 bytes of each target (m,)."""

    sources: list[Ids]
    targets: list[Ids]
    target_bytes: Ids

    def lengths(self) -> tuple[Ids, Ids]:
        """Return the pieces of each source and each target: (m,) int32 each."""
        source, target = (np.array([len(ids) for ids in side], np.int32) for side in self[:2])
        return source, target


def read_pairs(
    source: Sequence[str], target: Sequence[str], pieces: SubwordModel, most: int
) -> SubwordPairs:
    """Return the pairs with at most `most` pieces on each side. Raises DataError."""
    if len(source) != len(target) or not source:
        raise DataError(
            f"{len(source)} source and {len(target)} target lines: expected equal numbers, not 0"
        )
    sizes = (len(line.encode()) for line in target)
    every = zip(pieces.ids(source), pieces.ids(target), sizes, strict=True)
    usable = [one for one in every if max(len(one[0]), len(one[1])) <= most]
    if not usable:
        raise DataError(f"no pair of at most {most} pieces")
    sources, targets, n_bytes = zip(*usable, strict=True)
    return SubwordPairs(list(sources), list(targets), np.array(n_bytes, np.int32))


class Batch(NamedTuple):
    """A padded batch.

    source (n, s), target_in (n, t), target_out (n, t): int64 ids; source_padding, target_real:
    bool; n_bytes: UTF-8 bytes of the targets.
    """

    source: Tensor
    source_padding: Tensor
    target_in: Tensor
    target_out: Tensor
    target_real: Tensor
    n_bytes: int


def make_batch(pairs: SubwordPairs, rows: Sequence[int]) -> Batch:
    """Return a batch of some pairs, with EOS at the end of each source and output."""
    source, source_real = pad_ids([np.append(pairs.sources[i], EOS) for i in rows])
    target_out, target_real = pad_ids([np.append(pairs.targets[i], EOS) for i in rows])
    target_in = torch.cat([torch.full_like(target_out[:, :1], BOS), target_out[:, :-1]], dim=1)
    n_bytes = int(pairs.target_bytes[list(rows)].sum())
    return Batch(source, ~source_real, target_in, target_out, target_real, n_bytes)


def pad_ids(lines: Sequence[Ids]) -> tuple[Tensor, Tensor]:
    """Return n lines of ids padded with EOS, (n, longest) int64, and a bool mask of the ids."""
    lengths = np.array([len(line) for line in lines])
    real = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(real.shape, EOS, np.int64)
    ids[real] = np.concatenate(lines)
    return torch.from_numpy(ids), torch.from_numpy(real)
