"""A folded convolution, its bias and the activation behind it, without a gradient: for networks that only detect.

As written they are a convolution and two more passes over the map, and a join of maps copies each of them once more.
Here the result is written once, or once more where a join wants it: straight into its channels of the joint map.

There are two ways: cuDNN's convolution with one kernel behind it, in place, or one kernel for all of it, in several
sizes of tiles. Which is the quickest depends on the shape and the GPU, so each is timed when a shape is first seen.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from yolofast.fused.concat import ConcatSlot
from yolofast.fused.norm_act import PLAIN, activation_kind, power_of_two
from yolofast.precision import TRITON_IS_INTERPRETED, kernels_for

IMAGE_CHANNELS = 4
"""Of images for these kernels: three and one of zeros, so that a pixel is read at once."""
_WHOLE = 8
"""Outputs are padded to 16 bytes."""
_LARGEST_FLAT = 128
"""Numbers around a place that are multiplied in one turn."""
_NUMBERS_BEHIND, _WIDEST_BEHIND = 8192, 128
"""Of a program behind a convolution."""
_RUNS, _ROUNDS = 6, 3
_HEAD_START = 4_000_000
"""Cycles for which the GPU waits while the host queues what is timed: 2 ms."""


class Tiles(NamedTuple):
    places: int
    outputs: int
    channels: int
    warps: int
    stages: int


_TILES = (
    Tiles(128, 32, 32, 4, 4), Tiles(128, 64, 64, 4, 3), Tiles(128, 128, 64, 8, 3), Tiles(64, 64, 64, 4, 4),
    Tiles(256, 64, 64, 8, 3), Tiles(32, 32, 64, 4, 5),
)  # fmt: skip
Way = Tiles | None
"""None: cuDNN's."""
_chosen: dict[Any, Way] = {}


class ConvAct(nn.Module):
    """`act(conv(x))`, maps in channels_last; `of_images` have a fourth channel, which does not count."""

    weight: Tensor
    bias: Tensor

    def __init__(self, conv: nn.Conv2d, act: nn.Module | None = None, *, of_images: bool = False) -> None:
        super().__init__()
        self.act = nn.Identity() if act is None else act
        kind, self._slope = activation_kind(self.act)
        self._kind = PLAIN if kind is None else kind
        self._rest: nn.Module | None = self.act if kind is None else None
        assert not isinstance(conv.padding, str)
        self.stride, self.padding, self.groups, self.dilation = conv.stride, conv.padding, conv.groups, conv.dilation
        self.out_channels = conv.out_channels
        more = -conv.out_channels % _WHOLE if conv.groups == 1 else 0
        channels = IMAGE_CHANNELS - conv.in_channels if of_images else 0
        weight = F.pad(conv.weight.detach(), (0, 0, 0, 0, 0, channels, 0, more))
        bias = weight.new_zeros(conv.out_channels) if conv.bias is None else conv.bias.detach()
        self.register_buffer("weight", weight.contiguous(memory_format=torch.channels_last))
        self.register_buffer("bias", F.pad(bias, (0, more)))
        self.can_join = self._rest is None and not more
        """Whether it can write into a wider map."""

    def size(self, x: Tensor) -> tuple[int, int]:
        """Rows and columns of the result."""
        rows, columns = (
            (side + 2 * pad - gap * (window - 1) - 1) // step + 1
            for side, pad, gap, window, step in zip(
                x.shape[2:], self.padding, self.dilation, self.weight.shape[2:], self.stride, strict=True
            )
        )
        return rows, columns

    def forward(self, x: Tensor, slot: ConcatSlot | None = None, plus: Tensor | None = None) -> Tensor:
        """Called as `Conv` is, whose place it takes."""
        if slot is None or plus is not None or not self.can_join or not kernels_for(x):
            y = self.into(x)
            return y if plus is None else y + plus
        place = slot.buffer.place(slot.part, x, *self.size(x))
        if place is None or place.shape[1] != self.out_channels:
            return self.into(x)
        y = self.into(x, place, dense=not slot.only)
        slot.buffer.is_written(slot.part, y)
        return y

    def into(self, x: Tensor, joint: Tensor | None = None, *, dense: bool = True) -> Tensor:
        """Written to `joint` as well, or, not `dense`, there alone: some channels of a wider map in channels_last."""
        assert joint is None or self.can_join
        if kernels_for(x):
            x = x.contiguous(memory_format=torch.channels_last)
            y = self._run(x, joint, dense, self._way(x))[:, : self.out_channels]
            return y if self._rest is None else self._rest(y)
        y = F.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
        y = self.act(y[:, : self.out_channels])
        if joint is not None:
            joint.copy_(y)
        return y  # type: ignore[no-any-return]

    def _run(self, x: Tensor, joint: Tensor | None, dense: bool, way: Way) -> Tensor:
        from yolofast.fused import _conv_kernel as kernels

        (rows, columns), outputs = self.size(x), len(self.weight)
        places = len(x) * rows * columns
        if way is None:
            y = F.conv2d(x, self.weight, None, self.stride, self.padding, self.dilation, self.groups)
            y = y.contiguous(memory_format=torch.channels_last)
        elif dense or joint is None:
            y = x.new_empty((len(x), rows, columns, outputs)).permute(0, 3, 1, 2)
        else:
            y = joint
        to, pitch = (y, outputs) if joint is None else (joint, joint.stride(3))
        behind = self._slope, int(dense or joint is None), int(joint is not None)
        if way is None:
            block = min(_WIDEST_BEHIND, power_of_two(outputs))
            high = _NUMBERS_BEHIND // block
            kernels.bias_act_kernel[(-(-places // high), -(-outputs // block))](
                y, self.bias, to, places, outputs, pitch, *behind,
                ACT=self._kind, BLOCK_P=high, BLOCK_OUT=block, num_warps=8,
            )  # fmt: skip
            return y if dense or joint is None else joint
        channels, window = self.weight.shape[1:3]
        grid = (-(-places // way.places) * -(-outputs // way.outputs),)
        sizes = places, *x.shape[2:], rows, columns
        shape = {"ACT": self._kind, "BLOCK_P": way.places, "BLOCK_OUT": way.outputs, "num_warps": way.warps}
        if _flat(self.weight):
            kernels.image_conv_kernel[grid](
                x, self.weight, self.bias, y, to, *sizes, outputs, pitch, self.stride[0], *behind,
                K=window, C=channels, NUMBERS=max(16, power_of_two(window**2 * channels)), **shape,
            )  # fmt: skip
        else:
            turns: Any = window**2 * -(-channels // way.channels)
            if TRITON_IS_INTERPRETED:  # its numbers are arrays, which end no loop
                turns = kernels.constexpr(turns)
            kernels.conv_kernel[grid](
                x, self.weight, self.bias, y, to, *sizes, channels, outputs, pitch, window, self.stride[0],
                *behind, turns, BLOCK_C=way.channels, **shape, num_stages=way.stages,
            )  # fmt: skip
        return y

    def _way(self, x: Tensor) -> Way:
        ways = list(self._ways())
        if len(ways) == 1 or TRITON_IS_INTERPRETED:
            return ways[-1]
        key = x.device, x.dtype, x.shape, self.weight.shape, self.stride, self._kind
        if key not in _chosen:
            assert not torch.cuda.is_current_stream_capturing(), "a shape is timed before it is captured"
            _chosen[key] = min(ways, key=lambda way: _milliseconds(lambda: self._run(x, None, True, way)))
        return _chosen[key]

    def _ways(self) -> Iterator[Way]:
        yield None
        outputs, channels, window, _ = self.weight.shape
        plain = (
            self.weight.dtype in (torch.float16, torch.bfloat16)
            and self.groups == 1
            and window in (1, 3, 5)
            and self.weight.shape[2] == self.weight.shape[3]
            and self.padding == (window // 2, window // 2)
            and self.stride[0] == self.stride[1]
            and self.dilation == (1, 1)
        )
        if plain and _flat(self.weight):
            wide = max(16, min(64, power_of_two(outputs)))
            yield from (Tiles(places, wide, channels, 4, 1) for places in (128, 64))
        elif plain and channels % 16 == 0:
            fitting = (
                tiles._replace(channels=min(tiles.channels, power_of_two(channels)))
                for tiles in _TILES
                if tiles.outputs <= max(32, power_of_two(outputs))
            )
            yield from dict.fromkeys(fitting)


def _flat(weight: Tensor) -> bool:
    return weight.shape[1] == IMAGE_CHANNELS and weight[0].numel() <= _LARGEST_FLAT


def _milliseconds(work: Callable[[], object]) -> float:
    """Of the GPU alone, whatever launching takes; infinite for tiles that it has no room for."""
    from triton.runtime.errors import OutOfResources

    try:
        work()  # compiled, or found by cuDNN
    except OutOfResources:
        return float("inf")
    times: list[float] = []
    for _ in range(_ROUNDS):
        start: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        stop: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        torch.cuda._sleep(_HEAD_START)  # type: ignore[no-untyped-call]
        start.record()
        for _ in range(_RUNS):
            work()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop))
    return min(times)
