"""The architectures in float64 NumPy, position by position, for one sentence.

Written from the equations of the papers. Shares no code with the package: it knows only the names
of a model's parameters, and its options as a plain dictionary. `source` is a sentence's bytes with
EOS, or b"" where there is none; `target` is the decoder's input, BOS first; the answer is logits
(t, 256).
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from math import ceil, cos, erf, exp, floor, sin, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Parameters = Mapping[str, Array]
Options = Mapping[str, Any]

BOS = 254
EOS = 255
PER_BYTE = 15485907386658061715  # factor of the hash of a word


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    e: Array = np.exp(x - np.max(x))
    return e / float(np.sum(e))


def affine(p: Parameters, name: str, x: Array) -> Array:
    """W x, and b where the map has one."""
    y = p[f"{name}.weight"] @ x
    return y + p[f"{name}.bias"] if f"{name}.bias" in p else y


def embedded(p: Parameters, options: Options, text: bytes) -> list[Array]:
    """The vector of each byte, and of the n-grams that end with it, added up."""
    found = []
    for i, byte in enumerate(text):
        x = p["embedding.weight"][byte]
        for table, n in enumerate(options["ngrams"]):
            last = (bytes([BOS]) * 8 + text[: i + 1])[-n:]
            if options["ngram_case"] == "folded":
                last = last.lower()  # of ASCII, as bytes are
            n_rows = options["ngram_rows"]
            x = x + p["embedding.ngrams.weight"][table * n_rows + ngram_row(last, n_rows)]
        if n_rows := options["ngram_word_rows"]:
            (word,) = re.findall(rb"([0-9A-Za-z\x80-\xf4]*)\Z", text[: i + 1])[:1]
            key = sum((b + 1) * PER_BYTE**k for k, b in enumerate(reversed(word.lower())))
            n_above = len(options["ngrams"]) * options["ngram_rows"]
            x = x + p["embedding.ngrams.weight"][n_above + hash_row(key % 2**64, 9, n_rows)]
        found.append(x)
    return found


def ngram_row(last: bytes, n_rows: int) -> int:
    """The row of a table that some bytes have."""
    return hash_row(int.from_bytes(last, "big"), len(last), n_rows)


def hash_row(key: int, order: int, n_rows: int) -> int:
    """The highest bits of a hash of 64 bits."""
    modulus = 2**64
    h = key ^ order * 13787848793156543929 % modulus
    h = h * 11400714819323198485 % modulus
    h = (h ^ h // 2**32) * 10723151780598845931 % modulus
    return h * n_rows // modulus


def maxout(x: Array) -> Array:
    return np.array([max(x[2 * i], x[2 * i + 1]) for i in range(len(x) // 2)])


def output(p: Parameters, x: Array) -> Array:
    y = p["decoder.output.weight"] @ x
    return y + p["decoder.output.bias"] if "decoder.output.bias" in p else y


# ---- recurrent models


def gru(
    p: Parameters, name: str, x: Array, h: Array, reset: str, update: str, n_inside: int = 0
) -> Array:
    """One step; reset "before" or "after" the product; z can "keep" h or "take" the new.

    n_inside: the last inputs, whose share of g is reset as well, as in the decoder of Cho et al.
    2014, appendix: g = tanh(W e + r * (U h + C c)).
    """
    d = len(h)
    n = len(x) - n_inside
    w = p[f"{name}.input.weight"]
    b = p[f"{name}.input.bias"]
    u = p[f"{name}.gates.weight"]
    u_g = p[f"{name}.candidate.weight"]
    r = sigmoid(w[:d] @ x + u[:d] @ h + b[:d])
    z = sigmoid(w[d : 2 * d] @ x + u[d:] @ h + b[d : 2 * d])
    inside = w[2 * d :, n:] @ x[n:]
    recurrent = u_g @ (r * h) if reset == "before" else r * (u_g @ h + inside)
    g = np.tanh(w[2 * d :, :n] @ x[:n] + recurrent + b[2 * d :])
    return z * h + (1 - z) * g if update == "keep" else (1 - z) * h + z * g


def lstm(p: Parameters, name: str, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    d = len(h)
    a = affine(p, f"{name}.input", x) + p[f"{name}.recurrent.weight"] @ h
    c = sigmoid(a[d : 2 * d]) * c + sigmoid(a[:d]) * np.tanh(a[2 * d : 3 * d])
    return sigmoid(a[3 * d :]) * np.tanh(c), c


def read_order(source: bytes, options: Options) -> bytes:
    """The source as the encoder reads it: turned round before its EOS where that is asked for."""
    if not source or not options["reverse_source"]:
        return source
    return bytes([source[i] for i in range(len(source) - 2, -1, -1)]) + source[-1:]


def depths(options: Options) -> tuple[int, int]:
    """Layers of the encoder and of the decoder."""
    n_layers = options["n_layers"]
    return options["n_encoder_layers"] or n_layers, options["n_decoder_layers"] or n_layers


def top_to_top(states: list[Any], n_layers: int) -> list[Any]:
    """The first states of so many layers: the uppermost, or the lowest again if too few."""
    while len(states) < n_layers:
        states = [states[0], *states]
    return states[len(states) - n_layers :]


def seq2seq(p: Parameters, options: Options, source: bytes, target: bytes) -> Array:
    d = options["d_hidden"]
    n_layers = depths(options)[1]
    reset = options["gru_reset"]
    own = options["decoder_reset"]
    resets = [reset, reset if own == "shared" else own]
    every_step = options["context"] == "every_step"

    def step(
        name: str, x: Array, state: tuple[Array, ...], reset: str, n_inside: int = 0
    ) -> tuple[Array, ...]:
        if options["cell"] == "lstm":
            return lstm(p, name, x, *state)
        return (gru(p, name, x, state[0], reset, "keep", n_inside),)

    zero = (np.zeros(d),) * (2 if options["cell"] == "lstm" else 1)
    states = [zero for _ in range(depths(options)[0])]
    for x in embedded(p, options, read_order(source, options)):
        for layer, state in enumerate(states):
            states[layer] = step(f"encoder.{layer}", x, state, resets[0])
            x = states[layer][0]

    context = np.zeros(0)
    if every_step:
        context = np.tanh(affine(p, "decoder.context", states[-1][0]))
        start = np.tanh(affine(p, "decoder.start", context))
        parts = [start[i * d : (i + 1) * d] for i in range(len(start) // d)]
        states = [tuple(parts[layer::n_layers]) for layer in range(n_layers)]
    else:
        states = top_to_top(states or [zero], n_layers)
    logits = []
    for e in embedded(p, options, target):
        x = np.concatenate([e, context])
        for layer, state in enumerate(states):
            n_inside = len(context) if options["reset_context"] and layer == 0 else 0
            states[layer] = step(f"decoder.layers.{layer}", x, state, resets[1], n_inside)
            x = states[layer][0]
        if every_step:
            x = maxout(affine(p, "decoder.maxout", np.concatenate([x, e, context])))
        logits.append(output(p, x))
    return np.array(logits)


def bahdanau(p: Parameters, options: Options, source: bytes, target: bytes) -> Array:
    d = options["d_hidden"]
    n = len(source)
    annotations = embedded(p, options, source)
    backwards = [np.zeros(d)] * n
    for layer in range(options["n_encoder_layers"] if options["source"] else 0):
        name = f"encoder.above.{layer - 1}" if layer else "encoder"
        forwards = [np.zeros(d)] * n
        backwards = [np.zeros(d)] * n
        h = np.zeros(d)
        for j in range(n):
            h = forwards[j] = gru(p, f"{name}.forwards", annotations[j], h, "before", "take")
        h = np.zeros(d)
        for j in range(n - 1, -1, -1):
            h = backwards[j] = gru(p, f"{name}.backwards", annotations[j], h, "before", "take")
        annotations = [np.concatenate([forwards[j], backwards[j]]) for j in range(n)]

    s = np.zeros(d)
    if options["source"]:
        s = np.tanh(affine(p, "decoder.start", backwards[0] if n else np.zeros(d)))
        w_a = p["decoder.score.query.weight"]
        u_a = p["encoder.keys.weight"]
    logits = []
    for e in embedded(p, options, target):
        context = np.zeros(2 * d if options["source"] else 0)
        if n:
            scores = [p["decoder.score.v"] @ np.tanh(w_a @ s + u_a @ a) for a in annotations]
            for weight, annotation in zip(softmax(np.array(scores)), annotations, strict=True):
                context = context + weight * annotation
        new = gru(p, "decoder.cell", np.concatenate([e, context]), s, "before", "take")
        read = s if options["read_out"] == "previous" else new
        t = maxout(affine(p, "decoder.maxout", np.concatenate([read, e, context])))
        logits.append(output(p, t))
        s = new
    return np.array(logits)


def luong(p: Parameters, options: Options, source: bytes, target: bytes) -> Array:
    d = options["d_hidden"]
    n_layers = depths(options)[1]
    tops, hidden, cell = luong_encoder(p, options, source)
    fed = np.zeros(d)
    logits = []
    for t, e in enumerate(embedded(p, options, target)):
        x = np.concatenate([e, fed]) if options["input_feeding"] else e
        for layer in range(n_layers):
            name = f"decoder.layers.{layer}"
            hidden[layer], cell[layer] = lstm(p, name, x, hidden[layer], cell[layer])
            x = hidden[layer]
        if not options["source"] or options["attention"] == "off":
            logits.append(output(p, x))
            continue
        context = np.zeros(d)
        if tops:
            for s, weight in luong_alignment(p, options, tops, x, t).items():
                context = context + weight * tops[s]
        fed = np.tanh(p["decoder.combine.weight"] @ np.concatenate([context, x]))
        logits.append(output(p, fed))
    return np.array(logits)


def luong_encoder(
    p: Parameters, options: Options, source: bytes
) -> tuple[list[Array], list[Array], list[Array]]:
    """The top states that can be attended to, in the order that counts, and the first h and c of
    the decoder's layers."""
    n_encoder, n_layers = depths(options)
    hidden = [np.zeros(options["d_hidden"]) for _ in range(n_encoder)]
    cell = [np.zeros(options["d_hidden"]) for _ in range(n_encoder)]
    tops = []
    for x in embedded(p, options, read_order(source, options)):
        for layer in range(n_encoder):
            hidden[layer], cell[layer] = lstm(p, f"encoder.{layer}", x, hidden[layer], cell[layer])
            x = hidden[layer]
        tops.append(x)
    by_place = options["score"] == "location" or "local" in options["attention"]
    if options["reverse_source"] and by_place:
        tops = [*tops[-2::-1], *tops[-1:]]  # as they stand in the text, EOS last
    if options["score"] == "location":
        tops = tops[: options["n_locations"]]
    return tops, top_to_top(hidden, n_layers), top_to_top(cell, n_layers)


def luong_alignment(
    p: Parameters, options: Options, tops: list[Array], h: Array, t: int
) -> dict[int, float]:
    """Byte of the source -> its weight at step t; bytes that are not seen are left out."""
    width = options["attention_window"] or 50
    centre = luong_centre(p, options, len(tops), h, t)
    seen = list(range(len(tops)))
    if "local" in options["attention"]:
        seen = [s for s in seen if ceil(centre - width) <= s <= floor(centre + width)]
    scores = luong_scores(p, options, tops, h, seen)
    bell = np.array([exp(-((s - centre) ** 2) / (2 * (width / 2) ** 2)) for s in seen])
    if options["gaussian"] == "inside":
        scores = scores * bell
    weights = softmax(scores)
    is_after = options["attention"] == "local-p" and options["gaussian"] == "auto"
    if is_after or options["gaussian"] == "after":
        weights = weights * bell
    return {s: float(weight) for s, weight in zip(seen, weights, strict=True)}


def luong_centre(p: Parameters, options: Options, n_columns: int, h: Array, t: int) -> float:
    """The centre of the window at step t, if there is one."""
    if options["attention"] == "local-m":
        return min(t, n_columns - 1)
    if options["attention"] == "local-p":
        inner = np.tanh(p["decoder.position.hidden.weight"] @ h)
        return n_columns / (1 + exp(-float(p["decoder.position.v"] @ inner)))
    return 0.0


def luong_scores(
    p: Parameters, options: Options, tops: list[Array], h: Array, seen: list[int]
) -> Array:
    """The score of each byte that is seen."""
    if options["score"] != "location":
        return np.array([luong_score(p, options, h, tops[s]) for s in seen])
    scores = np.array([float(p["decoder.location.weight"][s] @ h) for s in seen])
    if options["location_softmax"] == "twice":
        return softmax(scores)
    return scores


def luong_score(p: Parameters, options: Options, h: Array, top: Array) -> float:
    if options["score"] == "dot":
        return float(h @ top)
    if options["score"] == "general":
        return float(h @ (p["keys.weight"] @ top))
    w_a = np.concatenate([p["decoder.score.query.weight"], p["keys.weight"]], axis=1)
    return float(p["decoder.score.v"] @ np.tanh(w_a @ np.concatenate([h, top])))


# ---- convolutional models


def layer_norm(p: Parameters, name: str, x: Array) -> Array:
    centred = x - float(x.mean())
    scale = sqrt(float((centred * centred).mean()) + 1e-5)
    return centred / scale * p[f"{name}.weight"] + p[f"{name}.bias"]


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def taps(weight: Array, bias: Array, columns: list[Array], offsets: list[int]) -> list[Array]:
    """out[i] = b + sum_j W[:, j] in[i + offsets[j]], zero outside; weight (d_out, k, d_in)."""
    result = []
    for i in range(len(columns)):
        total = bias.copy()
        for j in range(len(offsets)):
            at = i + offsets[j]
            if 0 <= at < len(columns):
                total = total + weight[:, j] @ columns[at]
        result.append(total)
    return result


def multiplicative_unit(h: Array, maps: Array) -> Array:
    """The unit of h, whose four maps g1, g2, g3, u are concatenated, before their functions."""
    d = len(h)
    g1 = sigmoid(maps[:d])
    g2 = sigmoid(maps[d : 2 * d])
    g3 = sigmoid(maps[2 * d : 3 * d])
    return g1 * np.tanh(g2 * h + g3 * np.tanh(maps[3 * d :]))


def bytenet_stack(
    p: Parameters, options: Options, name: str, columns: list[Array], causal: bool
) -> list[Array]:
    k = options["kernel_width"]
    n_sets = options[f"n_{name}_sets"] or options["n_sets"]
    dilations = list(options["dilations"])
    if name == "encoder" and options["encoder_dilations"]:
        dilations = list(options["encoder_dilations"])
    for block, r in enumerate(dilations * n_sets):
        at = f"{name}.blocks.{block}"
        inner = []
        unit = options["block"] == "multiplicative"
        for x in columns:
            h = affine(p, f"{at}.reduce", relu(layer_norm(p, f"{at}.norm_in", x)))
            normed_h = layer_norm(p, f"{at}.norm_mid", h)
            inner.append(normed_h if unit else relu(normed_h))
        if causal:
            offsets = [-(k - 1 - j) * r for j in range(k)]
        else:
            offsets = [j * r - (k - 1) * r // 2 for j in range(k)]
        weight = p[f"{at}.convolution.plain"]
        bias = p[f"{at}.convolution.bias"]
        mixed = taps(weight, bias, inner, offsets)
        if unit:
            for i, x in enumerate(columns):
                first = layer_norm(p, f"{at}.norm_out", multiplicative_unit(inner[i], mixed[i]))
                second = multiplicative_unit(first, affine(p, f"{at}.unit", first))
                columns[i] = x + affine(p, f"{at}.expand", second)
            continue
        columns = [
            x + affine(p, f"{at}.expand", relu(layer_norm(p, f"{at}.norm_out", h)))
            for x, h in zip(columns, mixed, strict=True)
        ]
    return columns


def gru_stack(p: Parameters, options: Options, side: str, columns: list[Array]) -> list[Array]:
    """Gated recurrent units in place of the blocks, each layer from a state of zero."""
    for layer in range(options[f"n_{side}_sets"] or options["n_sets"]):
        h = np.zeros(2 * options["d_channels"])
        states = []
        for x in columns:
            h = gru(p, f"{side}.layers.{layer}", x, h, "before", "keep")
            states.append(h)
        columns = states
    return columns


def bytenet(p: Parameters, options: Options, source: bytes, target: bytes) -> Array:
    d = options["d_channels"]
    n_columns = 0
    if source:
        a = Fraction(str(options["unfolding_factor"]))
        b = options["unfolding_offset"]
        n_columns = ceil(a * len(source) + b)
    visible = source + bytes([EOS]) * (n_columns - len(source))
    columns = [affine(p, "encoder.input", e) for e in embedded(p, options, visible)]
    if options["recurrent"] == "both":
        columns = gru_stack(p, options, "encoder", columns)
    elif options["source"]:
        columns = bytenet_stack(p, options, "encoder", columns, causal=False)
    columns = [affine(p, "encoder.output", x) for x in columns][:n_columns]

    stacked = []
    for i, e in enumerate(embedded(p, options, target)):
        own = affine(p, "decoder.input", e)
        if options["stacking"] == "add":
            stacked.append(own + columns[i] if i < n_columns else own)
            continue
        above = columns[i] if i < n_columns else np.zeros(d if options["source"] else 0)
        stacked.append(np.concatenate([own, above]))
    if options["recurrent"] == "none":
        stacked = bytenet_stack(p, options, "decoder", stacked, causal=True)
    else:
        stacked = gru_stack(p, options, "decoder", stacked)
    return np.array([output(p, relu(affine(p, "decoder.head", x))) for x in stacked])


def normed(p: Parameters, name: str) -> Array:
    """g v / |v|, the length over all that feeds one output channel; or the weight as it is."""
    if f"{name}.v" not in p:
        return p[name]
    v = p[f"{name}.v"]
    g = p[f"{name}.g"]
    return np.array([g[i] * v[i] / sqrt(float((v[i] * v[i]).sum())) for i in range(len(v))])


def normed_affine(p: Parameters, name: str, x: Array) -> Array:
    return normed(p, f"{name}.weight") @ x + p[f"{name}.bias"]


def kernel(p: Parameters, at: str) -> Array:
    """(d_out, k, d_in)."""
    plain = f"{at}.convolution.plain"
    return p[plain] if plain in p else normed(p, f"{at}.convolution.normed")


def gated(p: Parameters, at: str, columns: list[Array], offsets: list[int]) -> list[Array]:
    """GLU(conv): the first half of the channels, gated by the second."""
    weight = kernel(p, at)
    bias = p[f"{at}.convolution.bias"]
    half = len(bias) // 2
    mixed = taps(weight, bias, columns, offsets)
    return [h[:half] * sigmoid(h[half:]) for h in mixed]


def carried(p: Parameters, at: str, x: Array) -> Array:
    known = f"{at}.residual.bias" in p
    return normed_affine(p, f"{at}.residual", x) if known else x


def place(p: Parameters, options: Options, name: str, i: int) -> Array | float:
    """Position i's embedding; past the table its last row; 0 without a table."""
    n = options["n_positions"]
    if options["positions"] == "off" or n == 0:
        return 0.0
    i = min(i, n - 1)
    if options["positions"] == "learned":
        row: Array = p[name][i]
        return row
    d = options["d_embedding"]
    wave = np.zeros(d)
    for channel in range(d):
        angle = i / 10000 ** ((channel - channel % 2) / d)
        wave[channel] = 0.1 * sqrt(2) * (cos(angle) if channel % 2 else sin(angle))
    return wave


def dilations(options: Options, side: str) -> list[int]:
    """One a layer."""
    return list(options[f"{side}_dilations"]) or [1] * len(options[f"{side}_layers"])


def tanh_stack(
    p: Parameters, at: str, layers: Any, spread: list[int], e: list[Array]
) -> list[Array]:
    """A stack of Gehring et al. 2016: y = tanh(conv(y) + y)."""
    y = [normed_affine(p, f"{at}.input", x) if f"{at}.input.bias" in p else x for x in e]
    for layer, (_, k) in enumerate(layers):
        name = f"{at}.layers.{layer}"
        r = spread[layer]
        offsets = [j * r - (k - 1) * r // 2 for j in range(k)]
        mixed = taps(kernel(p, name), p[f"{name}.convolution.bias"], y, offsets)
        y = [np.tanh(a + carried(p, name, b)) for a, b in zip(mixed, y, strict=True)]
    return [normed_affine(p, f"{at}.output", x) if f"{at}.output.bias" in p else x for x in y]


def convs2s_encoder(
    p: Parameters, options: Options, e: list[Array]
) -> tuple[list[Array], list[Array]]:
    """Keys and values."""
    m = len(e)
    if options["encoder"] == "pooling":
        k = options["pooling_width"]
        keys = []
        for j in range(m):
            total = np.zeros(len(e[0]))
            for t in range(-((k - 1) // 2), k // 2 + 1):
                if 0 <= j + t < m:
                    total = total + e[j + t]
            keys.append(total / k)
        return keys, e
    if options["encoder"] == "conv":
        layers = options["encoder_layers"]
        keys = tanh_stack(p, "encoder.keys", layers, dilations(options, "encoder"), e)
        layers = options["value_layers"]
        return keys, tanh_stack(p, "encoder.values", layers, [1] * len(layers), e)
    z = [normed_affine(p, "encoder.input", x) for x in e]
    for layer, (_, k) in enumerate(options["encoder_layers"]):
        at = f"encoder.layers.{layer}"
        r = dilations(options, "encoder")[layer]
        h = gated(p, at, z, [j * r - (k - 1) * r // 2 for j in range(k)])
        z = [(a + carried(p, at, b)) * sqrt(0.5) for a, b in zip(h, z, strict=True)]
    z = [normed_affine(p, "encoder.output", x) for x in z]
    return z, [(z[j] + e[j]) * sqrt(0.5) for j in range(m)]


def convs2s(p: Parameters, options: Options, source: bytes, target: bytes) -> Array:
    half = sqrt(0.5)
    m = len(source)
    where = "encoder.positions.weight"
    e = [x + place(p, options, where, j) for j, x in enumerate(embedded(p, options, source))]
    keys, values = convs2s_encoder(p, options, e) if options["source"] and m else ([], [])

    where = "target_positions.weight"
    g = [x + place(p, options, where, i) for i, x in enumerate(embedded(p, options, target))]
    x = [normed_affine(p, "decoder.input", column) for column in g]
    for layer, (_, k) in enumerate(options["decoder_layers"]):
        at = f"decoder.layers.{layer}"
        r = dilations(options, "decoder")[layer]
        attends = not options["attention_layers"] or layer + 1 in options["attention_layers"]
        h = gated(p, at, x, [(j - (k - 1)) * r for j in range(k)])
        after = []
        for i in range(len(target)):
            if not options["source"] or not attends:
                after.append((h[i] + carried(p, at, x[i])) * half)
                continue
            query = normed_affine(p, f"{at}.query", h[i]) + g[i]
            if options["encoder"] == "gated":
                query = query * half
            context = np.zeros(options["d_embedding"])
            if m:
                weights = softmax(np.array([query @ key for key in keys]))
                for j in range(m):
                    context = context + weights[j] * values[j]
            if options["attention_scaling"] == "sqrt":
                context = context * sqrt(m)
            attended = (h[i] + normed_affine(p, f"{at}.context", context)) * half
            after.append((attended + carried(p, at, x[i])) * half)
        x = after
    last = [normed_affine(p, "decoder.last", column) for column in x]
    return np.array([normed_affine(p, "decoder.output", column) for column in last])


# ---- the Transformer


def gelu(x: Array) -> Array:
    return np.array([0.5 * a * (1 + erf(a / sqrt(2))) for a in x])


def turned(x: Array, position: int) -> Array:
    """Su et al. 2021, eq. 34: channels i and i + e / 2 as a complex number, times exp(i angle)."""
    half = len(x) // 2
    angles = position * 10_000.0 ** (-np.arange(half) / half)
    z = (x[:half] + 1j * x[half:]) * np.exp(1j * angles)
    return np.concatenate([z.real, z.imag])


def multi_head(query: Array, keys: list[Array], values: list[Array], n_heads: int) -> Array:
    e = len(query) // n_heads
    found = []
    for head in range(n_heads):
        at = slice(head * e, (head + 1) * e)
        weights = softmax(np.array([query[at] @ key[at] for key in keys]) / sqrt(e))
        found.append(sum(w * value[at] for w, value in zip(weights, values, strict=True)))
    return np.concatenate(found)


def self_attention(
    p: Parameters, at: str, x: list[Array], n_heads: int, window: int | None
) -> list[Array]:
    """Each column attends to all, or to the last `window` up to its own."""
    d = len(x[0])
    qkv = [affine(p, f"{at}.qkv", layer_norm(p, f"{at}.norm", column)) for column in x]

    def rotated(part: int, i: int) -> Array:
        heads = qkv[i][part * d : (part + 1) * d].reshape(n_heads, -1)
        return np.concatenate([turned(head, i) for head in heads])

    found = []
    for i in range(len(x)):
        seen = range(len(x)) if window is None else range(max(0, i - window + 1), i + 1)
        keys = [rotated(1, j) for j in seen]
        values = [qkv[j][2 * d :] for j in seen]
        found.append(affine(p, f"{at}.output", multi_head(rotated(0, i), keys, values, n_heads)))
    return found


def fed_forward(p: Parameters, at: str, x: Array) -> Array:
    return x + affine(
        p, f"{at}.output", gelu(affine(p, f"{at}.hidden", layer_norm(p, f"{at}.norm", x)))
    )


def transformer(p: Parameters, options: Options, source: bytes, target: bytes) -> Array:
    n_heads = options["n_heads"]
    (n_encoder, n_decoder) = depths(options)
    memory = []
    if options["source"] and source:
        x = [affine(p, "encoder.input", e) for e in embedded(p, options, source)]
        for layer in range(n_encoder):
            at = f"encoder.layers.{layer}"
            mixed = self_attention(p, f"{at}.self_attention", x, n_heads, None)
            x = [fed_forward(p, at, a + b) for a, b in zip(x, mixed, strict=True)]
        memory = [
            affine(p, "encoder.output", layer_norm(p, "encoder.norm", column)) for column in x
        ]
    x = [affine(p, "decoder.input", e) for e in embedded(p, options, target)]
    d = len(x[0])
    for layer in range(n_decoder):
        at = f"decoder.layers.{layer}"
        mixed = self_attention(p, f"{at}.self_attention", x, n_heads, options["window"])
        x = [a + b for a, b in zip(x, mixed, strict=True)]
        if memory:
            keys = [column[layer * d : (layer + 1) * d] for column in memory]
            values = [
                column[(n_decoder + layer) * d : (n_decoder + layer + 1) * d] for column in memory
            ]
            name = f"{at}.cross_attention"
            queries = [
                affine(p, f"{name}.query", layer_norm(p, f"{name}.norm", column)) for column in x
            ]
            contexts = [multi_head(query, keys, values, n_heads) for query in queries]
            x = [a + affine(p, f"{name}.output", b) for a, b in zip(x, contexts, strict=True)]
        x = [fed_forward(p, at, column) for column in x]
    return np.array([output(p, layer_norm(p, "decoder.norm", column)) for column in x])


REFERENCES = {
    "seq2seq": seq2seq,
    "bahdanau": bahdanau,
    "luong": luong,
    "bytenet": bytenet,
    "convs2s": convs2s,
    "transformer": transformer,
}
