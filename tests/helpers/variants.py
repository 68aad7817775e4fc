"""Every option of every architecture that its equations know, as small models."""

from __future__ import annotations

from invariants import VARIANTS, Variant

SEQ2SEQ: Variant = {"arch": "seq2seq", "d_embedding": 5, "d_hidden": 7}
BAHDANAU = VARIANTS["bahdanau"]
LUONG: Variant = {"arch": "luong", "d_embedding": 5, "d_hidden": 6}
BYTENET = VARIANTS["bytenet"]
CONVS2S = VARIANTS["convs2s"]

OPTIONS: dict[str, Variant] = VARIANTS | {
    f"seq2seq-{context}-{reset}-{n_layers}": SEQ2SEQ
    | {
        "context": context,
        "gru_reset": reset,
        "n_layers": n_layers,
        "reverse_source": n_layers == 1,
    }
    for context in ("start", "every_step")
    for reset in ("before", "after")
    for n_layers in (1, 2)
}
OPTIONS |= {
    f"luong-{score}-{feeding}-{n_layers}": LUONG
    | {
        "score": score,
        "input_feeding": feeding,
        "n_layers": n_layers,
        "reverse_source": feeding,
    }
    for score in ("dot", "general", "concat")
    for feeding in (True, False)
    for n_layers in (1, 2)
}
OPTIONS |= {
    f"luong-{score}-{attention}-{gaussian}": LUONG
    | {
        "n_layers": 1,
        "score": score,
        "attention": attention,
        "attention_window": 2,
        "gaussian": gaussian,
        "input_feeding": score != "general",
        "reverse_source": score != "dot",
    }
    | ({"n_locations": 8} if score == "location" else {})
    for score in ("dot", "general", "concat", "location")
    for attention in ("local-m", "local-p")
    for gaussian in ("auto", "after", "inside")
}
LOCATION: Variant = LUONG | {"score": "location", "n_locations": 5}
OPTIONS |= {
    "luong-location-once": LOCATION | {"input_feeding": False},
    "luong-location-twice": LOCATION | {"location_softmax": "twice"},
    "luong-location-twice-inside": LOCATION
    | {"location_softmax": "twice", "attention": "local-p", "gaussian": "inside", "attention_window": 3},
    "luong-default-window": LUONG | {"attention": "local-p"},
    "luong-off-reversed": LUONG
    | {"attention": "off", "input_feeding": False, "reverse_source": True, "n_decoder_layers": 3},
    "seq2seq-shallow-decoder": SEQ2SEQ | {"n_encoder_layers": 3},
    "seq2seq-deep-decoder": SEQ2SEQ | {"n_layers": 2, "n_decoder_layers": 4},
    "seq2seq-every-step-deep": SEQ2SEQ
    | {"context": "every_step", "n_encoder_layers": 2, "n_decoder_layers": 3},
    "seq2seq-decoder-before": SEQ2SEQ
    | {"gru_reset": "after", "decoder_reset": "before", "n_layers": 2, "context": "every_step"},
    "seq2seq-linear-read-out": SEQ2SEQ | {"context": "every_step", "read_out_kind": "linear"},
    "seq2seq-maxout-at-the-start": SEQ2SEQ | {"read_out_kind": "maxout", "tie_embedding": True},
    "seq2seq-cho-deep": VARIANTS["seq2seq-cho"]
    | {"n_encoder_layers": 3, "n_decoder_layers": 2, "read_out_kind": "linear"},
    "seq2seq-lstm-deep-decoder": SEQ2SEQ | {"cell": "lstm", "n_decoder_layers": 3},
    "seq2seq-lstm-every-step": SEQ2SEQ | {"cell": "lstm", "context": "every_step", "n_layers": 2},
    "luong-shallow-decoder": LUONG | {"n_encoder_layers": 3, "n_decoder_layers": 1},
    "luong-deep-decoder": LUONG | {"n_encoder_layers": 1, "input_feeding": False, "n_decoder_layers": 3},
    "bahdanau-current-untied": BAHDANAU | {"read_out": "current"},
    "bahdanau-deep-encoder": BAHDANAU | {"n_encoder_layers": 3},
    "bahdanau-tied": BAHDANAU | {"tie_embedding": True},
    "seq2seq-tied": SEQ2SEQ | {"tie_embedding": True},
    "seq2seq-tied-same-width": SEQ2SEQ | {"tie_embedding": True, "d_hidden": 5},
    "luong-tied": LUONG | {"tie_embedding": True},
    "bytenet-factor-1": BYTENET | {"unfolding_factor": 1.0},
    "bytenet-short-memory": BYTENET | {"unfolding_factor": 0.3, "tie_embedding": True},
    "bytenet-offset": BYTENET | {"unfolding_factor": 0.5, "unfolding_offset": 3},
    "bytenet-kernel-4": BYTENET | {"kernel_width": 4, "dilations": [3, 1], "n_sets": 1},
    "bytenet-deep-decoder": BYTENET | {"n_encoder_sets": 1, "n_decoder_sets": 3},
    "bytenet-add-multiplicative": BYTENET | {"stacking": "add", "block": "multiplicative", "kernel_width": 2},
    "bytenet-kernel-1": BYTENET | {"kernel_width": 1},
    "bytenet-multiplicative-kernel-4": BYTENET | {"block": "multiplicative", "kernel_width": 4},
    "convs2s-no-positions": CONVS2S | {"n_positions": 0},
    "convs2s-one-position": CONVS2S | {"n_positions": 1},
    "convs2s-tied": CONVS2S | {"tie_embedding": True},
    "convs2s-positions-off": CONVS2S | {"positions": "off"},
    "convs2s-many-waves": VARIANTS["convs2s-waves"] | {"n_positions": 50},
    "convs2s-pooling-plain": VARIANTS["convs2s-pooling"]
    | {"weight_norm": False, "attention_scaling": "none", "pooling_width": 5, "positions": "off"},
    "convs2s-conv-plain": VARIANTS["convs2s-conv-wider"] | {"weight_norm": False},
    "convs2s-wide-kernels": CONVS2S | {"encoder_layers": [[4, 6], [4, 5]]},
}
