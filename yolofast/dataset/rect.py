"""Batches of images of similar shape, each padded no further than its own images need (`--rect`, validation)."""

import numpy as np
import numpy.typing as npt

from yolofast.image_index import Ints


def rect_order(sizes: Ints) -> Ints:
    """[N] the images from the widest to the tallest; equal shapes stay in their order."""
    return np.argsort(_tallness(sizes), kind="stable")


def rect_shapes(sizes: Ints, batch: int, img: int, stride: int, pad: float = 0.5) -> Ints:
    """[batches, 2] height and width of each batch; `sizes` [N, 2] are widths and heights in the order of `rect_order`.

    The long side of every image becomes `img`. A batch that is wide or tall throughout needs only its least extreme
    image's other side; a mixed one is square. Each side is ceil(share · img / stride + pad) strides.
    """
    tallness = _tallness(sizes)
    shares = [_shares(tallness[start : start + batch]) for start in range(0, len(tallness), batch)]
    strides = np.ceil(np.array(shares, np.float64).reshape(-1, 2) * img / stride + pad)
    return strides.astype(np.int64) * stride


def _tallness(sizes: Ints) -> npt.NDArray[np.float64]:
    return np.asarray(sizes[:, 1] / sizes[:, 0])


def _shares(tallness: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Height and width as shares of the long side."""
    if tallness.max() < 1:
        return float(tallness.max()), 1.0
    if tallness.min() > 1:
        return 1.0, float(1 / tallness.min())
    return 1.0, 1.0
