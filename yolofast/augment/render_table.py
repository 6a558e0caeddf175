"""A plan as the few small tables a device renderer reads, laid out once so that they travel in one copy.

Axes: B images, V views, T tiles, P pasted objects.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from yolofast.augment.plan import Mask, Plan
from yolofast.image_index import Ints, starts_of

_ALIGNED = 16


@dataclass(frozen=True)
class RenderTable:
    """Everything a pixel needs to know, as tensors on one device."""

    inverse_BV9: Tensor
    """float32: output to canvas, row by row."""
    blend_B: Tensor
    """float32 weight of the first view."""
    colour_B3: Tensor
    """float32"""
    flip_B2: Tensor
    """int32: upside down, left to right."""
    tiles_BV: Tensor
    """int32: how many tiles each view has; 0 for a second view that is not there."""
    canvas_BV: Tensor
    """int32: the canvas's width."""
    tile_BVT7: Tensor
    """int32: x1, y1, x2, y2, the image's left and top on the canvas, its width."""
    start_BVT: Tensor
    """int64: where the image's bytes start."""
    copy_BV: Tensor
    """int64: where the canvas's mask of mirrored copies starts; -1 without."""
    paste_start_B1: Tensor
    """int32: the objects pasted on image b are `paste_start[b] : paste_start[b + 1]`."""
    paste_P8: Tensor
    """int32: x, y, w, h on the output; left, top, w, h of the object in its image."""
    paste_width_P: Tensor
    """int32: that image's width."""
    paste_source_P2: Tensor
    """int64: where that image's bytes and the object's mask start."""
    masks: Tensor
    """uint8: all masks, one after the other."""

    def of_images(self, images: slice) -> "RenderTable":
        """The table of some of the images; pasted objects and masks stay where they are."""
        cut = {name: getattr(self, name)[images] for name in _PER_IMAGE}
        return replace(self, **cut, paste_start_B1=self.paste_start_B1[images.start : images.stop + 1])


_PER_IMAGE = (
    "inverse_BV9", "blend_B", "colour_B3", "flip_B2", "tiles_BV", "canvas_BV", "tile_BVT7", "start_BVT", "copy_BV",
)  # fmt: skip


@dataclass(frozen=True)
class HostTable:
    """The same as one run of bytes on the host, ready to travel."""

    data: Tensor
    """uint8, pinned if it is to go to a GPU."""
    parts: tuple[tuple[int, int, torch.dtype, tuple[int, ...]], ...]
    """Where each of the table's tensors starts and ends, its type and shape."""

    def to(self, device: torch.device | str) -> RenderTable:
        moved = self.data.to(device, non_blocking=True)
        return RenderTable(*(moved[start:end].view(dtype).view(shape) for start, end, dtype, shape in self.parts))


def build_table(plan: Plan, starts: Ints, sizes: Ints, *, pin: bool = False) -> HostTable:
    """For images that start at `starts` and have these `sizes` in one run of bytes."""
    arrays = [np.ascontiguousarray(array) for array in _arrays(plan, starts, sizes)]
    parts, end = [], 0
    for array in arrays:
        start = -(-end // _ALIGNED) * _ALIGNED
        end = start + array.nbytes
        parts.append((start, end, _TORCH[array.dtype.name], array.shape))
    data = torch.empty(max(end, 1), dtype=torch.uint8, pin_memory=pin)
    buffer = data.numpy()
    for (start, stop, *_), array in zip(parts, arrays, strict=True):
        buffer[start:stop] = array.reshape(-1).view(np.uint8)
    return HostTable(data, tuple(parts))


_TORCH = {"float32": torch.float32, "int32": torch.int32, "int64": torch.int64, "uint8": torch.uint8}


def _arrays(plan: Plan, starts: Ints, sizes: Ints) -> list[npt.NDArray[np.generic]]:
    """In the order of the table's fields."""
    source = np.maximum(plan.source_BVT, 0)
    inverse = np.linalg.inv(plan.matrix_BV33)
    tile = np.concatenate((plan.tile_BVT4, plan.corner_BVT2, sizes[source][..., :1]), axis=-1)
    mask_starts, masks = _joined((*plan.copies.masks, *plan.pastes.masks))
    copies = len(plan.copies.masks)
    copy = np.full(plan.source_BVT.shape[:2], -1, np.int64)
    copy.reshape(-1)[plan.copies.view] = mask_starts[:copies]
    pastes = plan.pastes
    paste_start = np.searchsorted(pastes.image, np.arange(len(plan) + 1))
    return [
        inverse.reshape(*inverse.shape[:2], 9).astype(np.float32),
        plan.blend_B.astype(np.float32),
        plan.colour_B3.astype(np.float32),
        plan.flip_B2.astype(np.int32),
        (plan.source_BVT >= 0).sum(axis=2).astype(np.int32),
        plan.canvas_BV2[..., 0].astype(np.int32),
        tile.astype(np.int32),
        starts[source],
        copy,
        paste_start.astype(np.int32),
        np.concatenate((pastes.place, pastes.crop), axis=1).astype(np.int32),
        sizes[pastes.source, 0].astype(np.int32),
        np.stack((starts[pastes.source], mask_starts[copies:]), axis=-1).astype(np.int64),
        masks,
    ]


def _joined(masks: tuple[Mask, ...]) -> tuple[Ints, Mask]:
    """Where each mask starts, and all of them end to end."""
    joined = np.concatenate([np.zeros(0, np.uint8), *(mask.reshape(-1) for mask in masks)])
    return starts_of([mask.size for mask in masks])[:-1], joined
