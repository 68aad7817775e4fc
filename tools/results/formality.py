"""Scores of forms of address: whether a translation has the form that was asked for.

Lines are drawn from all test texts. Of those whose reference shows a form, a translation that is
asked for it should show it too, and one that is asked for the other form should be another text. Of
those whose reference shows none, it should stay the same whatever form is asked for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from bytenmt.formality import FORMS, Form, shown_form

N_LINES = 150  # of each form, and without one
N_FLIPPED = 50  # of each form
SEED = 20261128

TranslateAs = Callable[[Sequence[str], Form], list[str]]
Pair = tuple[str, str]


def formality_scores(translate: TranslateAs, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return, in percent, how far translations have the form of address that was asked for.

    pairs: sources and references of all test texts.
    """
    lines = _drawn(pairs)
    n_shown = sum(len(lines[form]) for form in FORMS)
    n_obeying = n_silent = n_changed = n_flipped = 0
    disobeyed: list[str] = []
    for form in FORMS:
        sources = lines[form]
        asked = translate(sources, form)
        shown = [shown_form(text) for text in asked]
        n_obeying += shown.count(form)
        n_silent += shown.count(None)
        disobeyed += [
            f"{form}: {source} → {text}"
            for source, text, one in zip(sources, asked, shown, strict=True)
            if one != form
        ]
        flipped = translate(sources[:N_FLIPPED], _other(form))
        n_flipped += len(flipped)
        n_changed += _n_different(asked, flipped)
    neutral = lines[None]
    n_neutral_changed = _n_different(translate(neutral, "formal"), translate(neutral, "informal"))
    return {
        "lines": n_shown,
        "obey": _percent(n_obeying, n_shown),
        "show no form": _percent(n_silent, n_shown),
        "change with the other form": _percent(n_changed, n_flipped),
        "lines without a form that change": _percent(n_neutral_changed, len(neutral)),
        "disobeyed": disobeyed,
    }


def _drawn(pairs: Sequence[Pair]) -> dict[Form | None, list[str]]:
    """Return the sources of lines drawn by the form that their reference shows."""
    by_form: dict[Form | None, list[str]] = {"informal": [], "formal": [], None: []}
    for source, reference in pairs:
        by_form[shown_form(reference)].append(source)
    draw = random.Random(SEED)
    return {
        form: draw.sample(sources, min(N_LINES, len(sources))) for form, sources in by_form.items()
    }


def _other(form: Form) -> Form:
    return "formal" if form == "informal" else "informal"


def _n_different(ones: Sequence[str], others: Sequence[str]) -> int:
    return sum(one != other for one, other in zip(ones, others, strict=False))


def _percent(n: int, n_all: int) -> float:
    return 100 * n / max(1, n_all)
