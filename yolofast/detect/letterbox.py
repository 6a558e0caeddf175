"""Pictures of any sizes on a device, and fitting them into a network's input there.

They lie one after the other in one buffer; where each lies is data too, so the same launches serve any of them.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from yolofast.augment.plan import FILL
from yolofast.media.pictures import placement
from yolofast.pixels import Image
from yolofast.precision import kernels_for
from yolofast.structures import InputConvention

try:
    from yolofast.detect._letterbox_kernel import letterbox_kernel
except ImportError:  # Triton is not there on every platform
    letterbox_kernel = None

COPYING_THREADS = 8
_BLOCK = 1024
_PIECE = 2**22
"""Bytes that are worth a thread of their own."""


@dataclass(frozen=True)
class Pictures:
    """Of a batch, as the device reads them."""

    levels: Tensor
    """uint8: all pictures one after the other."""
    starts: Tensor
    """`[B]` int64: where each begins."""
    sizes: Tensor
    """`[B, 6]` int32: its width and height, those it has in the input, and where it lies there: left, top."""
    scales: Tensor
    """`[B, 2]` float32: pixels of the picture per pixel of the input, x and y."""

    @staticmethod
    def room_for(images: int, capacity: int, device: torch.device | None) -> "Pictures":
        """On the host (None) in pinned memory if there is a GPU."""
        options: dict[str, Any] = {"device": device} if device else {"pin_memory": torch.cuda.is_available()}
        return Pictures(
            torch.zeros(capacity, dtype=torch.uint8, **options),
            torch.zeros(images, dtype=torch.int64, **options),
            torch.ones((images, 6), dtype=torch.int32, **options),
            torch.ones((images, 2), dtype=torch.float32, **options),
        )

    def put(
        self, images: Sequence[Image], shape: tuple[int, int], inputs: InputConvention, threads: ThreadPoolExecutor
    ) -> int:
        """The bytes that are used. Places without an image show the first one again."""
        flat, start = self.levels.numpy(), 0
        starts, sizes, scales = [], [], []
        pieces: list[tuple[Image, Image]] = []
        for image in images:
            height, width = image.shape[:2]
            lies = placement(width, height, shape, 1, inputs)
            own = flat[start : start + image.size].reshape(image.shape)
            rows = max(_PIECE * height // image.size, 1)
            pieces += [(own[top : top + rows], image[top : top + rows]) for top in range(0, height, rows)]
            starts.append(start)
            sizes.append((width, height, *lies.size, *lies.pad))
            scales.append((width / lies.size[0], height / lies.size[1]))
            start += image.size
        for kept, values in ((self.starts, starts), (self.sizes, sizes), (self.scales, scales)):
            kept.numpy()[: len(images)] = values
            kept.numpy()[len(images) :] = values[0]
        # Copying does not hold Python's lock, but handing out work does: so each thread is asked once.
        shares = [pieces[first::COPYING_THREADS] for first in range(min(COPYING_THREADS, len(pieces)))]
        others = [threads.submit(_copy, share) for share in shares[1:]]
        _copy(shares[0])
        for one in others:
            one.result()
        return start

    def copy_from(self, host: "Pictures", used: int) -> None:
        self.levels[:used].copy_(host.levels[:used], non_blocking=True)
        for own, other in ((self.starts, host.starts), (self.sizes, host.sizes), (self.scales, host.scales)):
            own.copy_(other, non_blocking=True)


def _copy(pieces: Sequence[tuple[Image, Image]]) -> None:
    for own, given in pieces:
        np.copyto(own, given)


def letterbox(
    pictures: Pictures, shape: tuple[int, int], inputs: InputConvention, dtype: torch.dtype, channels: int = 3
) -> Tensor:
    """`[B, channels, H, W]` in channels_last and the network's range; a fourth channel is 0.

    Resized linearly and rounded, as `fit` does but for one level of 255.
    """
    (height, width), device = shape, pictures.levels.device
    out = torch.empty((len(pictures.starts), height, width, channels), dtype=dtype, device=device)
    if letterbox_kernel is not None and kernels_for(out):
        letterbox_kernel[(len(pictures.starts), -(-height * width // _BLOCK))](
            pictures.levels, pictures.starts, pictures.sizes, pictures.scales, out, height, width, float(FILL),
            inputs.divisor, SWAP=inputs.rgb, CHANNELS=channels, BLOCK=_BLOCK, enable_fp_fusion=False,
        )  # fmt: skip
        return out.permute(0, 3, 1, 2)
    wide, high, used_w, used_h, left, top = (pictures.sizes[:, column, None].long() for column in range(6))
    x, y = torch.arange(width, device=device)[None] - left, torch.arange(height, device=device)[None] - top
    x0, x1, share_x = _neighbours(x, pictures.scales[:, :1], wide)
    y0, y1, share_y = _neighbours(y, pictures.scales[:, 1:], high)
    colours = torch.tensor((2, 1, 0) if inputs.rgb else (0, 1, 2), device=device)

    def levels(rows: Tensor, columns: Tensor) -> Tensor:
        place = (rows[:, :, None] * wide[:, None] + columns[:, None]) * 3 + pictures.starts[:, None, None]
        return pictures.levels[place[..., None] + colours].float()

    share_x, share_y = share_x[:, None, :, None], share_y[:, :, None, None]
    above = levels(y0, x0) + (levels(y0, x1) - levels(y0, x0)) * share_x
    below = levels(y1, x0) + (levels(y1, x1) - levels(y1, x0)) * share_x
    found = (above + (below - above) * share_y + 0.5).floor()
    shown = ((y >= 0) & (y < used_h))[:, :, None, None] & ((x >= 0) & (x < used_w))[:, None, :, None]
    out[..., 3:] = 0
    out[..., :3] = torch.where(shown, found, float(FILL)) / inputs.divisor
    return out.permute(0, 3, 1, 2)


def _neighbours(place: Tensor, scale: Tensor, size: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The two pixels between which it lies, and the share of the second."""
    at = ((place + 0.5) * scale - 0.5).clamp(min=0.0).minimum(size - 1.0)
    first = at.floor().long()
    return first, (first + 1).minimum(size - 1), at - first
