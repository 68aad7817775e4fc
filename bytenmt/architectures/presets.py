"""The presets: sizes of the architectures, equal in decoder weights within 20 %.

tiny has about 0.6 M decoder weights, small 3 M, base 10 M, large 25 M; paper is each paper's own
model with its training, and without a source with that of large; fast has an encoder about as large
as base's and a decoder a third as large. One byte embedding width a preset but paper, so that a
table can be handed from one model to another. tests/architectures/test_presets.py counts weights.
"""

from typing import Any

Values = dict[str, Any]  # keys of a section of the configuration

_TRAIN: dict[str, Values] = {
    "tiny": {"lr": 2e-3, "max_tokens": 2_500, "warmup_updates": 100},
    "small": {"lr": 1e-3, "max_tokens": 12_000},
    "base": {"lr": 7e-4, "max_tokens": 16_000, "label_smoothing": 0.1, "warmup_updates": 400},
    "large": {"lr": 5e-4, "max_tokens": 25_000, "label_smoothing": 0.1, "warmup_updates": 1_000},
    "paper": {"lr": 3e-4, "max_tokens": 25_000, "label_smoothing": 0.1, "warmup_updates": 2_000},
}
# What each learns best with, as far as it has been tried: tools/EXPERIMENTS.md.
_TRIED: dict[str, dict[str, Values]] = {
    "tiny": {
        "seq2seq": {"lr": 4e-3},
        "luong": {"optimizer": "muon", "lr": 8e-3},
        "bytenet": {"optimizer": "muon"},
        "convs2s": {"optimizer": "muon", "lr": 8e-3},
    }
}
_SHARED: dict[str, Values] = {
    "tiny": {"d_embedding": 64, "dropout": 0.0},
    "small": {"d_embedding": 128, "dropout": 0.1},
    "base": {"d_embedding": 256, "dropout": 0.2},
    "large": {"d_embedding": 512, "dropout": 0.2},
    "paper": {"d_embedding": 512, "dropout": 0.2},
}
_TRAIN["fast"] = _TRAIN["base"]
_SHARED["fast"] = _SHARED["base"]


def _convs2s(channels: int, kernel_width: int, n_layers: int) -> Values:
    """Return encoder and decoder layers of a ConvS2S, all of one size."""
    layers = [[channels, kernel_width]] * n_layers
    return {"encoder_layers": layers, "decoder_layers": layers}


_PAPER: Values = {"d_hidden": 1000, "init": "paper"}  # of the recurrent ones
# English-German of Gehring et al. 2017, section 4.2: 15 layers, width growing, the last two of
# kernel 1.
_CONVS2S_PAPER = [[512, 3]] * 10 + [[768, 3]] * 3 + [[2048, 1]] * 2

_SIZES: dict[str, dict[str, Values]] = {
    "seq2seq": {
        "tiny": {"d_hidden": 384},
        "small": {"d_hidden": 528, "n_layers": 2},
        "base": {"d_hidden": 1000, "n_layers": 2},
        "fast": {"d_hidden": 840, "n_encoder_layers": 3, "n_decoder_layers": 1},
        "large": {"d_hidden": 1536, "n_layers": 2},
        "paper": {  # Cho et al. 2014
            **_PAPER,
            "d_embedding": 100,
            "context": "every_step",
            "decoder_reset": "after",
            "reset_context": True,
            "reverse_source": False,
        },
    },
    "bahdanau": {
        "tiny": {"d_hidden": 192, "d_attention": 192, "d_maxout": 96},
        "small": {"d_hidden": 448, "d_attention": 448, "d_maxout": 224},
        "base": {"d_hidden": 832, "d_attention": 832, "d_maxout": 416},
        "fast": {"d_hidden": 448, "d_attention": 448, "d_maxout": 224, "n_encoder_layers": 2},
        "large": {"d_hidden": 1312, "d_attention": 1312, "d_maxout": 656},
        "paper": _PAPER | {"d_embedding": 620, "d_attention": 1000, "d_maxout": 500},
    },
    "luong": {
        "tiny": {"d_hidden": 168},
        "small": {"d_hidden": 368},
        "base": {"d_hidden": 688},
        "fast": {"d_hidden": 480, "n_encoder_layers": 4, "n_decoder_layers": 1},
        "large": {"d_hidden": 1072},
        "paper": _PAPER | {"d_embedding": 1000, "n_layers": 4, "reverse_source": True},
    },
    "bytenet": {
        # Few and wide blocks learn sooner, as few and wide layers do in convs2s.
        "tiny": {"d_channels": 112, "n_sets": 1, "dilations": [1, 2, 4], "kernel_width": 11},
        "small": {"d_channels": 160, "n_sets": 3},
        "base": {"d_channels": 256, "n_sets": 4},
        "fast": {
            "d_channels": 256,
            "n_sets": 1,
            "dilations": [1, 2, 4, 8, 16, 32],
            "n_encoder_sets": 4,
            "encoder_dilations": [1, 2, 4, 8, 16],
        },
        "large": {"d_channels": 336, "n_sets": 6},
        "paper": {"d_channels": 800, "n_sets": 6},
    },
    "convs2s": {
        "tiny": {
            **_convs2s(96, 7, 4),
            "positions": "sinusoidal",
            # The decoder sees 91 bytes; one that sees 25 repeats its phrases more often.
            "decoder_dilations": [1, 2, 4, 8],
        },
        "small": _convs2s(128, 7, 11),
        "base": _convs2s(256, 7, 10),
        "fast": {
            **_convs2s(256, 7, 10),
            "decoder_layers": [[256, 7]] * 3,
            "decoder_dilations": [1, 3, 9],
        },
        "large": _convs2s(384, 7, 10),
        "paper": {"encoder_layers": _CONVS2S_PAPER, "decoder_layers": _CONVS2S_PAPER},
    },
    "transformer": {
        "tiny": {"d_model": 120, "n_layers": 3},
        "small": {"d_model": 256, "n_layers": 3},
        "base": {"d_model": 336, "n_heads": 6, "n_layers": 6},
        "fast": {"d_model": 336, "n_heads": 6, "n_encoder_layers": 6, "n_decoder_layers": 2},
        "large": {"d_model": 544, "n_heads": 8, "n_layers": 6},
        "paper": {"d_model": 512, "n_heads": 8, "n_layers": 6},
    },
}

# What differs without a source: as many decoder weights, though there is no attention; nothing that
# ends a stream; ByteNet's own language model.
_ALONE: dict[str, dict[str, Values]] = {
    "seq2seq": {
        "fast": {"n_encoder_layers": 0},
        "paper": {"context": "start", "reset_context": False},
    },
    "bahdanau": {
        "tiny": {"d_hidden": 344, "d_attention": 1, "d_maxout": 172},
        "small": {"d_hidden": 784, "d_attention": 1, "d_maxout": 392},
        "base": {"d_hidden": 1424, "d_attention": 1, "d_maxout": 712},
        "fast": {"d_hidden": 760, "d_attention": 1, "d_maxout": 380, "n_encoder_layers": 1},
        "large": {"d_hidden": 2208, "d_attention": 1, "d_maxout": 1104},
    },
    "luong": {
        "tiny": {"d_hidden": 200},
        "small": {"d_hidden": 464},
        "base": {"d_hidden": 848},
        "fast": {"d_hidden": 700, "n_encoder_layers": 0},
        "large": {"d_hidden": 1344},
    },
    "bytenet": {
        "tiny": {"d_channels": 56, "n_sets": 2, "dilations": [1, 2, 4, 8], "kernel_width": 3},
        "small": {"d_channels": 96},
        "base": {"d_channels": 152},
        "fast": {"d_channels": 152, "n_encoder_sets": 0, "encoder_dilations": []},
        "large": {"d_channels": 200},
        "paper": {"d_channels": 512},
    },
    "convs2s": {
        "tiny": _convs2s(88, 7, 5) | {"decoder_dilations": []},
        "small": _convs2s(136, 7, 11),
        "base": _convs2s(264, 7, 10),
        "large": _convs2s(416, 7, 10),
    },
    "transformer": {
        "tiny": {"d_model": 128},
        "small": {"d_model": 280},
        "base": {"d_model": 360},
        "fast": {"d_model": 360, "n_encoder_layers": 0},
        "large": {"d_model": 576},
    },
}
_ALONE_ALWAYS: dict[str, Values] = {
    "bahdanau": {"read_out": "current"},
    "luong": {"input_feeding": False},
    "bytenet": {"block": "multiplicative"},
    "convs2s": {"encoder_layers": [], "positions": "learned", "n_positions": 0},
}
_WINDOWS: Values = {"context": 100, "window": 400}  # the paper's 500 bytes
_ALONE_TRAIN = dict.fromkeys(("bytenet", "convs2s", "transformer"), _WINDOWS)
# For one thread of a CPU and a megabyte of text.
_RECURRENT: Values = {"lr": 4e-3, "max_tokens": 4_096, "window": 128}
_ALONE_TINY: dict[str, Values] = {
    **dict.fromkeys(("seq2seq", "bahdanau", "luong"), _RECURRENT),
    "bytenet": {"lr": 3e-3, "max_tokens": 4_000},
    "convs2s": {"lr": 8e-3, "max_tokens": 4_000},
    "transformer": {"lr": 2e-3, "max_tokens": 4_000},
}


# The training of each paper: its optimiser and schedule, and no weight decay. A loss is divided by
# its target bytes here; Luong's by its sentences, of which one has about 100 bytes: his rate of 1
# and his norm of 5 are 100 and 0.05 here.
_BARE: Values = {"warmup_updates": 0, "weight_decay": 0.0, "label_smoothing": 0.0}
# Cho et al. 2014, section 4.1; Bahdanau et al. 2015, appendix B.2
_ADADELTA: Values = {**_BARE, "optimizer": "adadelta", "lr": 1.0, "schedule": "constant"}
_PAPER_TRAIN: dict[str, Values] = {
    "seq2seq": _ADADELTA,
    "bahdanau": _ADADELTA,
    "luong": {  # section 4.1, with dropout: 12 epochs, the rate halved after each from the eighth
        **_BARE,
        "optimizer": "sgd",
        "lr": 100.0,
        "schedule": "halving",
        "max_updates": 0,
        "max_epochs": 12.0,
        "clip_norm": 0.05,
    },
    "bytenet": {**_BARE, "lr": 3e-4, "schedule": "constant"},
    "convs2s": {  # section 4.2: a rate of 0.25 that is divided by 10 until it is below 1e-4
        **_BARE,
        "optimizer": "nag",
        "momentum": 0.99,
        "lr": 0.25,
        "schedule": "plateau",
        "plateau_factor": 0.1,
        "min_lr": 4e-4,
        "max_updates": 0,
        "clip_norm": 0.1,
    },
    "transformer": {  # Vaswani et al. 2017, section 5: 512 ** -0.5 * 4000 ** -0.5 at its peak
        "lr": 7e-4,
        "schedule": "inverse_sqrt",
        "max_updates": 100_000,
        "warmup_updates": 4_000,
        "adam_beta2": 0.98,
        "weight_decay": 0.0,
    },
}
_PAPER_DROPOUT = {"luong": 0.2, "convs2s": 0.2, "transformer": 0.1}  # the others have none
# The training without a source, which most of the papers did not have: as before a recipe.
_PAPER_ALONE: Values = _TRAIN["paper"] | {
    "optimizer": "adamw",
    "schedule": "cosine",
    "max_updates": 20_000,
    "max_epochs": 0.0,
    "clip_norm": 1.0,
    "weight_decay": 0.01,
}


def _preset(preset: str, arch: str) -> dict[str, Values]:
    """Return the sections of a preset of an architecture."""
    model = _SHARED[preset] | _SIZES[arch][preset]
    train = _TRAIN[preset] | _TRIED.get(preset, {}).get(arch, {})
    if preset == "paper":
        model |= {"dropout": _PAPER_DROPOUT.get(arch, 0.0)}
        train |= _PAPER_TRAIN[arch]
    return {"model": model, "train": train}


def _preset_without_source(preset: str, arch: str) -> dict[str, Values]:
    """Return what a preset of an architecture changes in its sections without a source."""
    model = {"source": False} | _ALONE[arch].get(preset, {}) | _ALONE_ALWAYS.get(arch, {})
    train = {"optimizer": "adamw"} | _ALONE_TRAIN.get(arch, {})
    if preset == "tiny":
        train |= _ALONE_TINY[arch]
    if preset == "paper":
        model |= {"dropout": _SHARED["paper"]["dropout"]}
        train |= _PAPER_ALONE
    return {"model": model, "train": train}


# The sections "model" and "train" of each preset of each architecture; then what differs from them
# without a source.
PRESETS: dict[str, dict[str, dict[str, Values]]] = {}
WITHOUT_SOURCE: dict[str, dict[str, dict[str, Values]]] = {}
for _name in _TRAIN:
    PRESETS[_name] = {arch: _preset(_name, arch) for arch in _SIZES}
    WITHOUT_SOURCE[_name] = {arch: _preset_without_source(_name, arch) for arch in _ALONE}
