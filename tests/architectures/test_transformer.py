"""Attention of the byte Transformer: the products that gradients take on a CPU equal PyTorch's fused one."""

import pytest
import torch
from torch.nn import functional as F

from bytenmt.architectures.transformer.model import _attend


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.bfloat16, 2e-2)])
def test_gradients_equal_those_of_the_fused_attention(dtype: torch.dtype, tolerance: float) -> None:
    """Outputs and all three gradients, with columns that some or all queries may not see."""
    generator = torch.Generator().manual_seed(1)
    shapes = (3, 2, 5, 6), (3, 2, 7, 6), (3, 2, 7, 6), (3, 2, 5, 6)
    q, k, v, weight = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    mask = torch.rand(3, 1, 5, 7, generator=generator) < 0.6
    mask[..., 0], mask[1, :, :, 3] = True, False
    found = []
    for precision, attend in ((dtype, _attend), (torch.float64, F.scaled_dot_product_attention)):
        inputs = [one.to(precision).requires_grad_() for one in (q, k, v)]
        output = attend(*inputs, mask)
        (output.double() * weight).sum().backward()
        found.append([output.double(), *(one.grad.double() for one in inputs if one.grad is not None)])
    assert len(found[0]) == len(found[1]) == 4
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=3 * tolerance)


def test_no_gradients_no_separate_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without gradients the fused attention is called, which keeps no scores."""
    called = []
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *_, **__: called.append(1))
    x, mask = torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2, dtype=torch.bool)
    _attend(x, x, x, mask)
    with torch.no_grad():
        _attend(x, x, x, mask)
    assert called == [1]
