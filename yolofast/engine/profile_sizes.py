"""The sizes of images in the steps that were measured: with `--multi-scale`, and with `--rect`, they differ."""

from collections import Counter
from dataclasses import dataclass, field

from torch import Tensor

_Size = tuple[int, int]


@dataclass
class Sizes:
    """Height and width, and how many steps had them: as a batch came, and as the network saw it."""

    came: Counter[_Size] = field(default_factory=Counter)
    seen: Counter[_Size] = field(default_factory=Counter)

    def add(self, came: Tensor, seen: Tensor) -> None:
        self.came[_size(came)] += 1
        self.seen[_size(seen)] += 1

    def update(self, other: "Sizes") -> None:
        self.came.update(other.came)
        self.seen.update(other.seen)

    @property
    def usual(self) -> _Size:
        """In which most batches came."""
        return self.came.most_common(1)[0][0]

    @property
    def in_words(self) -> str:
        """Nothing to say if there is only one."""
        if len(self.seen) == 1 and self.seen.keys() == self.came.keys():
            return ""
        if len(self.seen) == 1:
            return _in_words(*self.seen)
        smallest, largest = (pick(self.seen, key=_pixels) for pick in (min, max))
        side = mean_pixels(self.seen) ** 0.5
        return (
            f"{len(self.seen)} sizes from {_in_words(smallest)} to {_in_words(largest)}, {side:.0f}² pixels on average"
        )


def mean_pixels(sizes: Counter[_Size]) -> float:
    return sum(_pixels(size) * count for size, count in sizes.items()) / sizes.total()


def _size(images: Tensor) -> _Size:
    height, width = images.shape[-2:]
    return height, width


def _pixels(size: _Size) -> int:
    return size[0] * size[1]


def _in_words(size: _Size) -> str:
    return f"{size[0]}×{size[1]}"
