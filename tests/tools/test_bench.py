"""The decode benchmark's own logic: what a step reads, sentences that never end, ratios."""

import pytest
import torch

from bytenmt.architectures.presets import PRESETS
from bytenmt.architectures.registry import build_model
from bytenmt.config.schema import load_config
from bytenmt.decoding.cpu.packing import pack_model
from bytenmt.decoding.pytorch.forward import pad_texts
from bytenmt.utf8 import BOS, EOS
from tools.bench import decode as bench_decode
from tools.bench import steps

CPU = torch.device("cpu")


def packed_bytes(arch: str, *settings: str, n_rows: int = 1) -> tuple[int, int]:
    """Bytes that a step of preset tiny reads, and its decoder's weights."""
    config = load_config(arch, "tiny", list(settings))
    model = build_model(config.model)
    arrays = {name: p.detach().numpy() for name, p in model.named_parameters()}
    return steps.step_bytes(pack_model(arrays, config.model, "fp32"), n_rows), sum(
        part.numel() for part in model.decoder.parameters()
    )


@pytest.mark.slow
def test_what_a_step_reads():
    """The decoder's weights, but of tables one row for each row."""
    for arch in bench_decode.ARCHITECTURES:
        n_bytes, n_weights = packed_bytes(arch)
        assert 4 * n_weights * 0.9 <= n_bytes <= 4 * n_weights * 1.5, arch  # panels of 64 outputs
    longer, shorter = (packed_bytes("convs2s", f"model.n_positions={n}") for n in (2000, 50))
    assert longer[0] == shorter[0]
    plain, _ = packed_bytes("luong")
    with_tables, _ = packed_bytes("luong", "model.ngrams=[2,3,5]", n_rows=32)
    assert with_tables - plain == 32 * 3 * 64 * 4  # orders, width of the embedding, bytes of a float32


@pytest.mark.slow
@pytest.mark.parametrize("arch", PRESETS["tiny"])
def test_random_sentences_never_end(arch):
    model = steps.endless_model(arch, "tiny").model
    one = steps.random_requests(1, 100)[0]
    text = b"made of some bytes that a model reads"
    memory = model.encode(*pad_texts([(one.source or b"") + bytes([EOS])], CPU))
    with torch.no_grad():
        after = model(torch.tensor([[BOS, *text]], dtype=torch.uint8), memory, model.start(memory))[0][0]
    assert (after[:, EOS] < after.quantile(0.8, dim=1)).all()  # never among a dozen candidates of 256
    running = steps.StepTimer(steps.make_engine(steps.Case(arch, "tiny", "torch", "fp32", 2, 3), CPU), 2, 100)
    running.time_steps(40)
