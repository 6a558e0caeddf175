"""Decoded images where renderers find them: one by one on the host, or all in one run of bytes on any device."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

Image = npt.NDArray[np.uint8]
"""[height, width, 3], blue, green, red."""


class ImageSource(Protocol):
    """Images resized to fit the training size, each as an array on the host. Reading may be done by several threads."""

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """[N, 2] width and height of the resized images."""

    def image(self, index: int) -> Image:
        """One of them; the caller must not write into it."""


@dataclass(frozen=True)
class PackedImages:
    """N images in one run of bytes: image i starts at `starts[i]`, row by row, three bytes per pixel (B, G, R)."""

    data: Tensor
    """[bytes] uint8, on any device."""
    starts: npt.NDArray[np.int64]
    """[N]"""
    sizes: npt.NDArray[np.int64]
    """[N, 2] width and height."""

    def image(self, index: int) -> Image:
        width, height = (int(side) for side in self.sizes[index])
        start = int(self.starts[index])
        pixels: Image = self.data[start : start + height * width * 3].numpy()
        return pixels.reshape(height, width, 3)
