"""Fingerprints of configurations that stay the same when a later version adds a configuration key.

A key that was added later counts only where its value differs from its neutral value: the one with which an
older version, which did not know the key, behaved the same. A run that leaves the key at that value keeps its
fingerprint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from bytenmt.config.schema import REMOVED_KEYS, Config, config_tree

# To add a configuration key, add its neutral value here. NEVER change one, not even where the key's default
# changes, and never remove one: that would change the fingerprints of existing runs.
NEUTRAL: Mapping[str, Mapping[str, Any]] = {
    "model": {
        "ngrams": (),
        "ngram_rows": 0,
        "ngram_dropout": 0.0,
        "ngram_case": "kept",
        "ngram_word_rows": 0,
        "encoder_lookahead": -1,
    },
    "data": {
        "placeholders": 0.0,
        "sentinels": 0.0,
        "upper_case": 0.0,
        "title_case": 0.0,
        "lower_case": 0.0,
        "unpunctuated": 0.0,
        "empty_source": 0.0,
        "augment": {},
    },
    "train": {
        "ngram_lr": 0.0,
        "max_epochs": 0.0,
        "decay_share": 0.2,
        "loss_terms": {},
        "options": {},
        "waits": (),
    },
}


def distinguishing_values(config: Config) -> dict[str, dict[str, Any]]:
    """Return a configuration as nested plain values, without the later keys that have their neutral value."""
    tree = config_tree(config)
    return {
        section: {
            key: value
            for key, value in {**tree[section], **REMOVED_KEYS.get(section, {})}.items()
            if key not in neutral or value != neutral[key]
        }
        for section, neutral in NEUTRAL.items()
    }


def fingerprint(config: Config) -> str:
    """Return eight hex digits that name a configuration in scores and logs."""
    text = msgspec.json.encode(distinguishing_values(config), order="sorted")
    return hashlib.sha256(text).hexdigest()[:8]
