"""The modules a model file may name: their arguments, and what they do to channels and stride.

The table is explicit and strings go through an allow-list, so nothing in a model file is ever evaluated. Because every
entry states its stride, the strides of the detection levels are known without running the network.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from torch import nn

from yolofast.errors import shorten
from yolofast.model.blocks import MP, SP, SPPCSPC, Concat, Conv, DownC, ReOrg, RepConv, Shortcut, Upsample, batch_norm
from yolofast.model.graph import is_number, is_whole


@dataclass(frozen=True)
class MapShape:
    """A feature map: its channels, and how many input pixels one of its cells spans."""

    channels: int
    stride: Fraction


class LayerProblem(Exception):  # noqa: N818 - it is turned into a UserError as soon as the layer is known
    """What is wrong with a layer's arguments or inputs, and the fix."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what, self.fix = what, fix


REQUIRED = object()


@dataclass(frozen=True)
class Param:
    """One positional argument: how it is written in a model file, and how it is checked."""

    name: str
    check: Callable[[Any], Any]
    expected: str
    default: Any = REQUIRED


@dataclass(frozen=True)
class ModuleRow:
    """A row of the table. `build` takes input shapes and named arguments, and gives the module and its output."""

    build: Callable[..., tuple[nn.Module, MapShape]]
    params: tuple[Param, ...] = ()
    joins: bool = False
    """Takes a list of maps rather than one."""

    def signature(self, name: str) -> str:
        parts = [p.name if p.default is REQUIRED else f"{p.name}={p.default}" for p in self.params]
        return f"{name}({', '.join(parts)})"

    def bind(self, name: str, args: tuple[Any, ...]) -> dict[str, Any]:
        """The arguments by name, checked; raises LayerProblem."""
        required = sum(p.default is REQUIRED for p in self.params)
        if not required <= len(args) <= len(self.params):
            count = f"{required} to {len(self.params)}" if required < len(self.params) else str(required)
            raise LayerProblem(
                f"takes {count} arguments, got {len(args)}: {shorten(list(args))}", f"write {self.signature(name)}"
            )
        bound = {}
        for position, param in enumerate(self.params):
            value = args[position] if position < len(args) else param.default
            value = _CONSTANTS.get(value, value) if isinstance(value, str) else value
            try:
                bound[param.name] = param.check(value)
            except (ValueError, TypeError):
                what = f"argument {param.name} is {shorten(value)}"
                raise LayerProblem(what, f"give {param.expected}: {self.signature(name)}") from None
        return bound


def scaled_channels(channels: int, width_multiple: float, head_channels: int) -> int:
    """YOLOv7's rounding: up to a multiple of 8, except for a layer that already gives the head's own channels."""
    return channels if channels == head_channels else math.ceil(channels * width_multiple / 8) * 8


def activation(value: Any) -> nn.Module:
    """`True` is SiLU, `False` and `None` are nothing, a string such as `nn.LeakyReLU(0.1)` is looked up."""
    if value is True:
        return nn.SiLU()
    if value is False or value is None:
        return nn.Identity()
    if not isinstance(value, str):
        raise ValueError(value)
    match = re.fullmatch(r"(?:nn\.)?(\w{1,32})(?:\(([^()]{0,64})\))?", value.strip())
    if match is None or match[1] not in _ACTIVATIONS:
        raise ValueError(value)
    maximum, make = _ACTIVATIONS[match[1]]
    numbers = [float(re.sub(r"^\w+=", "", part.strip())) for part in (match[2] or "").split(",") if part.strip()]
    if len(numbers) > maximum or not all(math.isfinite(n) for n in numbers):
        raise ValueError(value)
    return make(*numbers)


# In place wherever the backward pass needs only the result: the eager step then keeps one map instead of two.
_ACTIVATIONS: dict[str, tuple[int, Callable[..., nn.Module]]] = {
    "SiLU": (0, nn.SiLU),
    "ReLU": (0, lambda: nn.ReLU(inplace=True)),
    "ReLU6": (0, nn.ReLU6),
    "LeakyReLU": (1, lambda slope=0.01: nn.LeakyReLU(slope, inplace=slope >= 0)),
    "ELU": (1, nn.ELU),
    "GELU": (0, nn.GELU),
    "Hardswish": (0, nn.Hardswish),
    "Mish": (0, nn.Mish),
    "Sigmoid": (0, nn.Sigmoid),
    "Tanh": (0, nn.Tanh),
    "Identity": (0, nn.Identity),
}
_CONSTANTS = {"None": None, "True": True, "False": False}


def _between(low: int, high: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if not is_whole(value) or not low <= value <= high:
            raise ValueError(value)
        return int(value)

    return check


def _optional(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else check(value)


def _exactly(*allowed: Any) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not any(value == one and type(value) is type(one) for one in allowed):
            raise ValueError(value)
        return value

    return check


def _size(name: str, default: Any) -> Param:
    return Param(name, _between(1, 64), "a whole number from 1 to 64", default)


_CHANNELS = Param("c2", _between(1, 65_536), "the number of output channels, a whole number")
_PADDING = Param("p", _optional(_between(0, 64)), "a padding from 0 to 64, or None for k//2", None)
_GROUPS = Param("g", _between(1, 65_536), "a whole number of groups", 1)
_ACTIVATION = Param(
    "act", activation, f"True (SiLU), False, or one of {', '.join(f'nn.{name}' for name in _ACTIVATIONS)}", True
)


def _strided(shape: MapShape, channels: int, k: int, s: int, p: int) -> MapShape:
    """The output of a window of size k, or a problem if it does not divide the map evenly."""
    probe = 64 * s
    if (probe + 2 * p - k) // s + 1 != probe // s:
        what = f"a window of {k} with stride {s} and padding {p} does not scale the map by 1/{s}"
        raise LayerProblem(what, "use an odd window with padding k//2, or give the padding that keeps the size")
    return MapShape(channels, shape.stride * s)


def _conv(x: MapShape, c2: int, k: int, s: int, p: int | None, g: int, act: nn.Module) -> tuple[nn.Module, MapShape]:
    _check_groups(x, c2, g)
    return Conv(x.channels, c2, k, s, p, g, act), _strided(x, c2, k, s, k // 2 if p is None else p)


def _rep_conv(
    x: MapShape, c2: int, k: int, s: int, p: int | None, g: int, act: nn.Module
) -> tuple[nn.Module, MapShape]:
    _check_groups(x, c2, g)
    if p not in (None, 1):
        raise LayerProblem(f"padding is {p}", "omit it: a RepConv is 3×3 with padding 1")
    return RepConv(x.channels, c2, k, s, g, act), _strided(x, c2, k, s, 1)


def _check_groups(x: MapShape, c2: int, g: int) -> None:
    if x.channels % g or c2 % g:
        raise LayerProblem(f"{g} groups do not divide {x.channels} input and {c2} output channels", "change g or c2")


def _max_pool(x: MapShape, k: int, s: int | None, p: int) -> tuple[nn.Module, MapShape]:
    if p > k // 2:
        raise LayerProblem(f"padding {p} is more than half of the window {k}", "use at most k//2")
    shape = _strided(x, x.channels, k, s or k, p)
    return nn.MaxPool2d(k, s or k, p), shape


def _down_c(x: MapShape, c2: int) -> tuple[nn.Module, MapShape]:
    if c2 % 2:
        raise LayerProblem(f"{c2} output channels cannot be split into two halves", "give an even number")
    return DownC(x.channels, c2), MapShape(c2, x.stride * 2)


def _concat(inputs: list[MapShape], d: int) -> tuple[nn.Module, MapShape]:
    _same_stride(inputs)
    return Concat(), MapShape(sum(x.channels for x in inputs), inputs[0].stride)


def _shortcut(inputs: list[MapShape], d: int) -> tuple[nn.Module, MapShape]:
    _same_stride(inputs)
    if len(inputs) != 2 or inputs[0].channels != inputs[1].channels:
        channels = ", ".join(str(x.channels) for x in inputs)
        raise LayerProblem(f"sums maps of {channels} channels", "give two layers with the same number of channels")
    return Shortcut(), inputs[0]


def _same_stride(inputs: list[MapShape]) -> None:
    if len({x.stride for x in inputs}) > 1:
        strides = ", ".join(str(x.stride) for x in inputs)
        raise LayerProblem(
            f"joins maps of strides {strides}", "resize them to one stride first, with nn.Upsample or MP"
        )


BLOCKS: Mapping[str, ModuleRow] = {
    "Conv": ModuleRow(_conv, (_CHANNELS, _size("k", 1), _size("s", 1), _PADDING, _GROUPS, _ACTIVATION)),
    "RepConv": ModuleRow(
        _rep_conv, (_CHANNELS, Param("k", _exactly(3), "3", 3), _size("s", 1), _PADDING, _GROUPS, _ACTIVATION)
    ),
    "MP": ModuleRow(lambda x, k: (MP(k), MapShape(x.channels, x.stride * k)), (_size("k", 2),)),
    "SP": ModuleRow(lambda x, k, s: (SP(k, s), _strided(x, x.channels, k, s, k // 2)), (_size("k", 3), _size("s", 1))),
    "Concat": ModuleRow(_concat, (Param("d", _exactly(1), "1, the channel axis", 1),), joins=True),
    "Shortcut": ModuleRow(_shortcut, (Param("d", _exactly(0, 1), "0 or 1; it has no effect", 0),), joins=True),
    "ReOrg": ModuleRow(lambda x: (ReOrg(), MapShape(4 * x.channels, x.stride * 2))),
    "SPPCSPC": ModuleRow(lambda x, c2: (SPPCSPC(x.channels, c2), MapShape(c2, x.stride)), (_CHANNELS,)),
    "DownC": ModuleRow(_down_c, (_CHANNELS,)),
    "nn.Upsample": ModuleRow(
        lambda x, size, scale, mode: (Upsample(size, scale, mode), MapShape(x.channels, x.stride / scale)),
        (
            Param("size", _exactly(None), "None", None),
            Param("scale", lambda v: _between(2, 16)(int(v) if is_number(v) and v == int(v) else v), "2 to 16", 2),
            Param("mode", _exactly("nearest"), "'nearest'", "nearest"),
        ),
    ),
    "nn.Conv2d": ModuleRow(
        lambda x, c2, k, s, p: (nn.Conv2d(x.channels, c2, k, s, p), _strided(x, c2, k, s, p)),
        (_CHANNELS, _size("k", REQUIRED), _size("s", 1), Param("p", _between(0, 64), "a padding", 0)),
    ),
    "nn.MaxPool2d": ModuleRow(
        _max_pool,
        (
            _size("k", REQUIRED),
            Param("s", _optional(_between(1, 64)), "a stride, or None for k", None),
            Param("p", _between(0, 32), "a padding", 0),
        ),
    ),
    "nn.BatchNorm2d": ModuleRow(lambda x: (batch_norm(x.channels), x)),
    "nn.Identity": ModuleRow(lambda x: (nn.Identity(), x)),
}
CHANNEL_SCALED = frozenset({"Conv", "RepConv", "SPPCSPC", "DownC", "nn.Conv2d"})
"""Modules whose first argument `width_multiple` scales."""
