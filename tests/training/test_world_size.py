"""The number of processes changes when a run goes on: what is learnt stays the same, in its order."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from small_runs import config

from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.windows import WindowBatch
from bytenmt.distributed import SINGLE_PROCESS, Group
from bytenmt.training.language_model import LanguageModelObjective
from bytenmt.training.trainer import Objective
from bytenmt.training.translation import TranslationObjective
from bytenmt.utf8 import PAD

SIZES = (2, 3, 1, 2, 4)  # of the job, from one stop to the next


def pairs(texts: dict[str, Any], group: Group) -> Objective:
    corpus = ParallelCorpus.open_all(texts["files"])
    return TranslationObjective(config("luong"), corpus, corpus, group=group)


def windows(arch: str, texts: dict[str, Any], group: Group) -> Objective:
    path: Path = texts["files"][0].src
    settings = ["model.source=false", "train.window=16", "train.max_tokens=80"]
    convolutional = ["model.encoder_layers=[]", "train.context=4"]
    settings += convolutional if arch == "convs2s" else ["model.input_feeding=false"]
    return LanguageModelObjective(config(arch, *settings), [path], path, group=group)


@pytest.mark.parametrize("kind", ["pairs", "convs2s", "luong"])
def test_the_rows_of_all_processes_are_those_of_one(kind: str, texts: dict[str, Any]) -> None:
    """Pairs, windows drawn from a text, and streams whose state is carried on; over the end of an epoch."""

    def task(group: Group) -> Objective:
        return pairs(texts, group) if kind == "pairs" else windows(kind, texts, group)

    n_each = 4
    alone = [rows(share.data) for share in islice(task(SINGLE_PROCESS).shares(0, 0), n_each * len(SIZES))]
    found, place = [], (0, 0)
    for size in SIZES:
        processes = [task(Group(rank, size)).shares(*place) for rank in range(size)]
        for _ in range(n_each):
            shares = [next(process) for process in processes]
            ((epoch, batch),) = {(share.epoch, share.batch) for share in shares}
            place = epoch, batch
            found.append(sorted(row for share in shares for row in rows(share.data)))
    assert place[0] > 0 and found == [sorted(batch) for batch in alone]


def rows(batch: Any) -> list[bytes]:
    """Return the rows of a batch's targets."""
    if isinstance(batch, WindowBatch):
        return list(map(bytes, batch.truth))
    return [bytes(row).rstrip(bytes([PAD])) for row in batch.target]
