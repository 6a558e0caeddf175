"""Which image is where in an epoch, which of them a rank takes in each batch, and what form a batch has.

Positions, not images, name what is drawn for an image, and a rank takes its part of each batch of the whole run. So the
number of ranks changes neither what is in a batch nor how it is augmented, and an epoch can start at any batch.

With `--rect` and in validation batches are of images of similar shape, each padded no further than its images need.
"""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
import numpy.typing as npt

from yolofast.augment.draws import uniform
from yolofast.errors import UserError
from yolofast.image_index import Ints

# Streams of draws that no augmentation uses.
_SHUFFLE_STREAM, _WEIGHT_STREAM, _BATCH_STREAM = 8, 9, 10


@dataclass(frozen=True)
class OrderedBatch:
    number: int
    """Which batch of the epoch."""
    images: Ints
    positions: Ints
    """Where in the epoch they are."""
    block: int
    """Which batch it would be, were the batches not shuffled."""


@dataclass(frozen=True)
class EpochOrder:
    images: int | Ints
    """How many images there are, or which ones in which order."""
    _: KW_ONLY
    seed: int
    shuffle: bool
    """False is what YOLOv7 does on one GPU: every epoch in the order of the files."""
    batch_size: int
    """Images of a batch over all ranks."""
    shuffle_batches: bool = False
    """Full batches in another order every epoch, each with the images that are together in `images`."""
    weights: npt.NDArray[np.float64] | None = None
    """[images] how often each is drawn, with replacement, in place of once."""
    repeats: int = 1
    """How often an image is there at once, by neighbouring positions. Epochs stay as long: all images have been there
    after so many of them."""
    among: Ints | None = None
    """Images, of which alone there are some. Epochs stay as long: they have each of them more often."""
    rank: int = 0
    world: int = 1
    drop_last: bool = False
    """Leave out the last batch if it is not full."""
    multiple: int = 1
    """Every rank's part of a batch is a multiple of this (quad needs 4); what is left over is left out."""

    def __post_init__(self) -> None:
        if self.batch_size < 1 or self.batch_size % (self.world * self.multiple):
            groups = f" in groups of {self.multiple}" if self.multiple > 1 else ""
            what = f"a batch of {self.batch_size} cannot be divided among {self.world} processes{groups}"
            raise UserError(what, fix=f"give a --batch-size that is a multiple of {self.world * self.multiple}")
        if not 0 <= self.rank < self.world:
            raise UserError(f"rank {self.rank} of {self.world} processes", fix="ranks count from 0")
        if self.weights is not None:
            if self.weights.shape != (self.count,):
                raise UserError(f"there are image weights of shape {self.weights.shape} for {self.count} images")
            if not np.isfinite(self.weights).all() or self.weights.min() < 0 or self.weights.sum() <= 0:
                what = "image weights are negative, not finite or all 0"
                raise UserError(what, fix="give at least one image some weight")
        if not len(self):
            least = self.batch_size if self.drop_last else self.world * self.multiple
            what = f"{self.count} images do not make a single batch"
            raise UserError(what, fix=f"give at least {least} images, or a smaller --batch-size")

    @property
    def count(self) -> int:
        """Positions of an epoch."""
        return self.images if isinstance(self.images, int) else len(self.images)

    def __len__(self) -> int:
        """Batches of an epoch."""
        return self.count // self.batch_size + (self._last_size() > 0)

    def batches(self, epoch: int, start_batch: int = 0) -> Iterator[OrderedBatch]:
        """This rank's parts of the batches of an epoch, from `start_batch` on."""
        if not 0 <= start_batch <= len(self):
            what = f"an epoch of {len(self)} batches cannot start at batch {start_batch}"
            raise UserError(what, fix="resume with the data set and --batch-size of the interrupted run")
        order, blocks = self._order(epoch), self._blocks(epoch)
        full = self.count // self.batch_size
        for number in range(start_batch, len(self)):
            own = self._own_part(self.batch_size if number < full else self._last_size())
            block = int(blocks[number])
            yield OrderedBatch(number, order[block * self.batch_size + own], number * self.batch_size + own, block)

    def _last_size(self) -> int:
        """Images of the last, partial batch. Too few for every rank to get some, it is left out: no rank can wait for
        another that has nothing to do."""
        left = self.count % self.batch_size
        left -= left % self.multiple
        return 0 if self.drop_last or left < self.world * self.multiple else left

    def _own_part(self, size: int) -> Ints:
        groups = size // self.multiple
        first, last = (groups * rank // self.world for rank in (self.rank, self.rank + 1))
        return np.arange(first * self.multiple, last * self.multiple)

    def _blocks(self, epoch: int) -> Ints:
        """[batches] the block of images each batch is; a partial one stays the last."""
        blocks = np.arange(len(self))
        if self.shuffle_batches:
            full = self.count // self.batch_size
            draws = uniform(self.seed, epoch, blocks[:full], 1, _BATCH_STREAM)[:, 0]
            blocks[:full] = np.argsort(draws, kind="stable")
        return blocks

    def _order(self, epoch: int) -> Ints:
        """[positions] the image at each."""
        if self.weights is not None:
            positions = np.arange(self.count)
            share = np.cumsum(self.weights, dtype=np.float64)
            draws = uniform(self.seed, epoch, positions, 1, _WEIGHT_STREAM)[:, 0]
            chosen = np.searchsorted(share, draws * share[-1], side="right")
        else:
            chosen = self._pass(epoch, self.count) if self.repeats == 1 and self.among is None else self._stream(epoch)
        ordered: Ints = chosen if isinstance(self.images, int) else self.images[chosen]
        return ordered

    def _pass(self, number: int, count: int) -> Ints:
        """So many images, each once."""
        positions = np.arange(count)
        if not self.shuffle:
            return positions
        return np.argsort(uniform(self.seed, number, positions, 1, _SHUFFLE_STREAM)[:, 0], kind="stable")

    def _stream(self, epoch: int) -> Ints:
        """Passes over the images, each repeated, one after the other: an epoch takes the next part of them."""
        among = np.arange(self.count) if self.among is None else self.among
        number, place = np.divmod(np.arange(epoch * self.count, (epoch + 1) * self.count) // self.repeats, len(among))
        passes = {one: among[self._pass(one, len(among))] for one in np.unique(number).tolist()}
        return np.array([passes[one][n] for one, n in zip(number.tolist(), place.tolist(), strict=True)], np.int64)


@dataclass(frozen=True)
class BatchForm:
    """Height and width of a run's batches, and until when they may have mosaics."""

    height: int
    width: int
    shapes: Ints | None = None
    """[batches, 2] height and width of each, where batches are rectangular; those have no mosaics."""
    close_mosaic_from: int | None = None
    """The first epoch without mosaics."""
    strengths: Sequence[float] = ()
    """Of augmentation, by epoch; of none: 1."""

    @property
    def most_pixels(self) -> int:
        """Of an image of the largest batch."""
        return self.height * self.width if self.shapes is None else int(self.shapes.prod(axis=1).max())

    def shape(self, batch: OrderedBatch) -> tuple[int, int]:
        """Its height and width."""
        if self.shapes is None:
            return self.height, self.width
        height, width = self.shapes[batch.block].tolist()
        return height, width

    def strength(self, epoch: int) -> float:
        return self.strengths[epoch] if self.strengths else 1.0

    def has_mosaics(self, epoch: int) -> bool:
        return self.shapes is None and not mosaic_is_closed(self.close_mosaic_from, epoch)


def mosaic_is_closed(close_mosaic_from: int | None, epoch: int) -> bool:
    """Whether an epoch is one of the last ones, which have no mosaics."""
    return close_mosaic_from is not None and epoch >= close_mosaic_from


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
