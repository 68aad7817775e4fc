"""A second device on a machine without one: storages have a label, the CPU computes.

Inside `labelled_device()`, torch.device("cuda") is understood wherever a tensor is made or moved,
and `Tensor.device` tells the label. An operation whose tensors have different labels raises
WrongDevice. As in PyTorch, scalars of the CPU may meet other tensors, but not in fused optimisers,
which read every tensor as a pointer on the device. Every read of a labelled value by the host is
counted: there a GPU would be waited for.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

HOST = torch.device("cpu")
DEVICE = torch.device("cuda")
COPIES = {"copy_", "_to_copy", "set_"}  # operations between devices
# Operations whose results are read.
WAITS = {"_local_scalar_dense", "nonzero", "_unique2", "equal", "masked_select"}
ON_HOST_ONLY = {"numpy", "__array__"}  # what needs the memory of the CPU


class WrongDevice(RuntimeError):
    """An operation on tensors of different devices."""


def device_of(tensor: Tensor) -> torch.device:
    """Return the label of a tensor's storage."""
    return DEVICE if getattr(tensor.untyped_storage(), "is_labelled", False) else HOST


def put(tensor: Tensor, device: torch.device) -> Tensor:
    """Label a tensor's storage."""
    tensor.untyped_storage().is_labelled = device.type == "cuda"  # type: ignore[attr-defined]
    return tensor


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


class _Labels(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Compute every operation, label its results and refuse mixed ones.

    waits: what the host read.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.waits: Counter[str] = Counter()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Any = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = func.__name__.partition(".")[0]
        inputs = _tensors((args, kwargs))
        labelled = [tensor for tensor in inputs if device_of(tensor) == DEVICE]
        others = [tensor for tensor in inputs if device_of(tensor) == HOST]
        is_fused = name.startswith("_fused_")
        if labelled and name not in COPIES and any(is_fused or tensor.dim() for tensor in others):
            shapes = [f"{tuple(tensor.shape)} on {device_of(tensor)}" for tensor in inputs]
            raise WrongDevice(f"{name}: {', '.join(shapes)}")
        self.waits[name] += bool(labelled) and name in WAITS
        results = func(*args, **kwargs)
        if labelled and name not in ("copy_", "set_"):
            for tensor in _tensors(results):
                put(tensor, DEVICE)
        return results


class _Devices(TorchFunctionMode):
    """Understand torch.device("cuda") where tensors are made or moved, and tell the labels."""

    def __init__(self, labels: _Labels) -> None:
        super().__init__()
        self.labels = labels

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: Any = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name == "__get__" and func.__self__ is Tensor.device:
            return device_of(args[0])
        if name in ON_HOST_ONLY and device_of(args[0]) == DEVICE:
            raise WrongDevice(f"{name} of a tensor on {DEVICE}")
        if name == "_parse_to":  # of Module.to, which then calls Tensor.to
            return func(*args, **kwargs)
        named = [_device(value) for value in tree_leaves((args, kwargs))]
        wanted = next((device for device in named if device is not None), None)
        if name in ("to", "cpu", "cuda") and not (wanted is None and name == "to"):
            return self._move(name, wanted or torch.device(name), args, kwargs)
        if name == "tolist" and device_of(args[0]) == DEVICE:
            self.labels.waits["tolist"] += 1
        if wanted is None:
            return func(*args, **kwargs)
        on_host = tree_map(lambda value: value if _device(value) is None else HOST, (args, kwargs))
        results = func(*on_host[0], **on_host[1])
        for tensor in _tensors(results):
            put(tensor, wanted)
        return results

    def _move(self, name: str, device: torch.device, args: Any, kwargs: dict[str, Any]) -> Tensor:
        tensor = args[0]
        rest = [value for value in args[1:] if isinstance(value, torch.dtype)]
        before = device_of(tensor)
        options = {key: value for key, value in kwargs.items() if key == "dtype"}
        moved: Tensor = tensor.to(*rest, **options) if rest or options else tensor
        if before == device:
            return moved
        self.labels.waits["to the host"] += device == HOST
        return put(moved.clone(), device)


def _device(value: Any) -> torch.device | None:
    """Return a device among the arguments of a call, given as such or by its name."""
    if isinstance(value, torch.device):
        return value
    return torch.device(value) if isinstance(value, str) and value in ("cpu", "cuda") else None


@contextmanager
def labelled_device() -> Iterator[Counter[str]]:
    """Emulate a device; yield how often the host waited for it, by operation."""
    labels = _Labels()
    on_cpu = {"autocast": torch.autocast}
    plain = torch.is_autocast_enabled, torch.get_autocast_dtype
    with ExitStack() as stack:
        for place, changed in (
            ("autocast", lambda kind, *rest, **more: on_cpu["autocast"]("cpu", *rest, **more)),
            ("is_autocast_enabled", lambda kind="cpu": plain[0]("cpu")),
            ("get_autocast_dtype", lambda kind="cpu": plain[1]("cpu")),
        ):
            stack.enter_context(mock.patch.object(torch, place, changed))
        # What PyTorch has written in Python runs as it is: inside of what a mode intercepts, it is
        # off.
        for module in (torch.nn.functional, torch._tensor, torch.functional):
            for place in (f"has_torch_function{kind}" for kind in ("", "_unary", "_variadic")):
                if hasattr(module, place):
                    stack.enter_context(mock.patch.object(module, place, lambda *inputs: False))
        stack.enter_context(labels)
        stack.enter_context(_Devices(labels))
        yield labels.waits
