"""Small models with the options of the architectures: each option at least once."""

import json
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

Variant = dict[str, Any]


def read_variants(table: str, known: Mapping[str, Variant] = {}) -> dict[str, Variant]:
    """Return the variants of a table, a line each.

    A line has its name, an architecture or a variant above or in `known`, and what differs from
    that. A value is JSON, or a word.
    """
    found: dict[str, Variant] = {}
    for line in table.strip().splitlines():
        name, base, *settings = line.split()
        found[name] = dict({**known, **found}.get(base, {"arch": base}))
        for key, value in (setting.split("=") for setting in settings):
            found[name][key] = (
                value if value[0].isalpha() and value not in WORDS else json.loads(value)
            )
    return found


WORDS = ("true", "false", "null")  # of JSON

# Small and odd, every option at least once.
VARIANTS = read_variants("""
seq2seq seq2seq d_embedding=5 d_hidden=7
seq2seq-every-step seq2seq n_layers=2 context=every_step gru_reset=after
seq2seq-cho seq2seq context=every_step decoder_reset=after reset_context=true
seq2seq-lstm seq2seq d_hidden=6 cell=lstm n_layers=2 n_encoder_layers=3
bahdanau bahdanau d_embedding=5 d_hidden=7 d_attention=6 d_maxout=3
bahdanau-current bahdanau d_hidden=4 d_attention=3 d_maxout=7 read_out=current
luong luong d_embedding=5 d_hidden=7
luong-concat luong d_hidden=6 n_layers=1 score=concat input_feeding=false reverse_source=true
bytenet bytenet d_embedding=5 d_channels=7 n_sets=2 dilations=[1,2]
bytenet-short bytenet d_channels=6 n_sets=1 dilations=[1,3] kernel_width=2 unfolding_factor=0.6 \
    unfolding_offset=1
convs2s convs2s d_embedding=5 encoder_layers=[[6,3],[6,3]] decoder_layers=[[6,3],[6,4]]
convs2s-uneven convs2s encoder_layers=[[4,2],[7,4],[7,1]] decoder_layers=[[4,3],[7,2],[6,1]] \
    n_positions=6
bytenet-add bytenet stacking=add n_encoder_sets=1 encoder_dilations=[2,1,3] unfolding_factor=0.8
luong-location luong d_hidden=6 n_layers=1 score=location n_locations=6 reverse_source=true
luong-twice luong d_hidden=6 n_layers=1 score=location n_locations=40 location_softmax=twice
luong-local-m luong d_hidden=6 n_layers=1 attention=local-m attention_window=2 reverse_source=true
luong-local-p luong d_hidden=6 n_layers=1 attention=local-p attention_window=3 score=concat
luong-inside luong d_hidden=6 n_layers=1 attention=local-p attention_window=4 gaussian=inside \
    input_feeding=false
luong-off luong d_hidden=6 n_layers=2 attention=off input_feeding=false
bytenet-multiplicative bytenet block=multiplicative
seq2seq-ngrams seq2seq ngrams=[2,3,6] ngram_rows=16
bahdanau-ngrams bahdanau ngrams=[2,3,6] ngram_rows=16
luong-ngrams luong ngrams=[2,3,6] ngram_rows=16
bytenet-ngrams bytenet ngrams=[2,3,6] ngram_rows=16
convs2s-ngrams convs2s ngrams=[8] ngram_rows=8 ngram_case=folded
luong-concat-ngrams luong-concat ngrams=[2,3,6] ngram_rows=16 ngram_case=folded ngram_word_rows=8
recurrent-bytenet-decoder bytenet recurrent=decoder n_decoder_sets=1 stacking=add
recurrent-bytenet-both bytenet dilations=[] recurrent=both n_encoder_sets=1 unfolding_factor=0.8
convs2s-waves convs2s positions=sinusoidal n_positions=9
convs2s-one-attention convs2s attention_layers=[2] attention_scaling=none
convs2s-plain-weights convs2s-uneven weight_norm=false attention_layers=[1,3]
convs2s-dilated convs2s encoder_dilations=[3,1] decoder_dilations=[2,3]
convs2s-pooling convs2s encoder_layers=[] encoder=pooling pooling_width=4
convs2s-conv convs2s encoder=conv value_layers=[[5,2]] encoder_dilations=[1,2]
convs2s-conv-wider convs2s-uneven encoder=conv value_layers=[[5,3],[8,3]] attention_scaling=none
transformer transformer d_embedding=5 d_model=8 n_heads=2 n_layers=2 window=4
transformer-uneven transformer d_model=6 n_heads=3 window=3 d_ff=5 n_encoder_layers=1 \
    n_decoder_layers=3
transformer-ngrams transformer n_layers=1 ngrams=[2,3,6] ngram_rows=16
bahdanau-deep-encoder bahdanau n_encoder_layers=3
""")
WITHOUT_SOURCE = read_variants(
    """
seq2seq-alone seq2seq source=false n_layers=2
seq2seq-lstm-alone seq2seq-lstm n_encoder_layers=0 source=false
bahdanau-alone bahdanau source=false
bahdanau-current-alone bahdanau-current source=false
luong-alone luong source=false input_feeding=false
bytenet-alone bytenet source=false
bytenet-multiplicative-alone bytenet-short source=false block=multiplicative
convs2s-alone convs2s-uneven encoder_layers=[] n_positions=0 source=false
seq2seq-ngrams-alone seq2seq-ngrams source=false n_layers=2 ngram_word_rows=32
convs2s-ngrams-alone convs2s-alone ngrams=[2,3,6] ngram_rows=16
recurrent-bytenet-alone bytenet-alone dilations=[] recurrent=decoder
transformer-alone transformer source=false
transformer-ngrams-alone transformer-ngrams n_heads=1 window=7 source=false
""",
    VARIANTS,
)
VARIANTS |= WITHOUT_SOURCE
# For the CPU engine beside PyTorch; those named -wide have whole panels and a little more than one.
MORE = read_variants(
    """
luong-dot luong n_layers=3 score=dot
seq2seq-shallow seq2seq n_encoder_layers=3
seq2seq-lstm-every-step seq2seq d_hidden=6 cell=lstm context=every_step n_decoder_layers=2
seq2seq-cho-deep seq2seq-cho n_encoder_layers=3 n_decoder_layers=2 gru_reset=after
luong-deep luong d_hidden=6 n_layers=1 n_decoder_layers=3
luong-concat-inside luong-local-p score=concat attention_window=5 gaussian=inside
luong-dot-inside luong-local-p score=dot attention_window=5 gaussian=inside
luong-places-in-a-window luong-location attention=local-m attention_window=3 gaussian=after \
    n_locations=9 location_softmax=twice
bytenet-wide bytenet d_embedding=33 d_channels=65 n_sets=1 dilations=[1,2,4]
convs2s-pooling-wide convs2s-pooling d_embedding=37 pooling_width=5
seq2seq-wide seq2seq d_embedding=64 d_hidden=128 gru_reset=after
""",
    VARIANTS,
)


def crossed(base: str, **values: Sequence[Any]) -> dict[str, Variant]:
    """A variant with all combinations of the values of some options."""
    return {
        "-".join([base, *map(str, some)]): VARIANTS[base] | dict(zip(values, some, strict=True))
        for some in product(*values.values())
    }


# All options of the equations.
BOTH = (False, True)
OPTIONS: dict[str, Variant] = MORE | VARIANTS
OPTIONS |= crossed(
    "seq2seq",
    context=["start", "every_step"],
    gru_reset=["before", "after"],
    reverse_source=BOTH,
    n_layers=[1, 2],
)
OPTIONS |= crossed(
    "luong",
    score=["dot", "general", "concat"],
    input_feeding=BOTH,
    reverse_source=BOTH,
    n_layers=[1, 2],
)
OPTIONS |= crossed(
    "luong-location",  # n_locations and a reversed source
    score=["dot", "general", "concat", "location"],
    attention=["local-m", "local-p"],
    gaussian=["auto", "after", "inside"],
    attention_window=[2],
)
OPTIONS |= read_variants(
    """
luong-location-once luong d_hidden=6 score=location n_locations=5 input_feeding=false
luong-location-twice luong d_hidden=6 score=location n_locations=5 location_softmax=twice
luong-location-twice-inside luong-location-twice attention=local-p gaussian=inside \
    attention_window=3
luong-default-window luong d_hidden=6 attention=local-p
luong-off-reversed luong-default-window attention=off input_feeding=false reverse_source=true \
    n_decoder_layers=3
seq2seq-deep-decoder seq2seq n_layers=2 n_decoder_layers=4
seq2seq-every-step-deep seq2seq context=every_step n_encoder_layers=2 n_decoder_layers=3
seq2seq-decoder-before seq2seq gru_reset=after decoder_reset=before n_layers=2 context=every_step
seq2seq-lstm-deep-decoder seq2seq cell=lstm n_decoder_layers=3
luong-shallow-decoder luong d_hidden=6 n_encoder_layers=3 n_decoder_layers=1
luong-deep-decoder luong-shallow-decoder n_encoder_layers=1 input_feeding=false n_decoder_layers=3
bytenet-factor-1 bytenet unfolding_factor=1.0
bytenet-short-memory bytenet unfolding_factor=0.3
bytenet-offset bytenet unfolding_factor=0.5 unfolding_offset=3
bytenet-kernel-4 bytenet n_sets=1 dilations=[3,1] kernel_width=4
bytenet-deep-decoder bytenet n_encoder_sets=1 n_decoder_sets=3
bytenet-add-multiplicative bytenet-multiplicative stacking=add kernel_width=2
bytenet-kernel-1 bytenet kernel_width=1
bytenet-multiplicative-kernel-4 bytenet-multiplicative kernel_width=4
convs2s-no-positions convs2s n_positions=0
convs2s-one-position convs2s n_positions=1
convs2s-positions-off convs2s positions=off
convs2s-many-waves convs2s-waves n_positions=50
convs2s-pooling-plain convs2s-pooling pooling_width=5 weight_norm=false attention_scaling=none \
    positions=off
convs2s-conv-plain convs2s-conv-wider weight_norm=false
convs2s-wide-kernels convs2s encoder_layers=[[4,6],[4,5]]
""",
    OPTIONS,
)
