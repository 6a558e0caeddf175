"""Random numbers that depend on nothing but their name: seed, epoch, position in the epoch, and which draw it is.

A counter-based generator (Philox4x32-10, Salmon et al., SC 2011) turns those four numbers into a draw without any
state, so the number of workers, their order, the device and a resume cannot change what is drawn, and a whole batch is
drawn at once. NumPy's own Philox has a state per generator, which would mean one object per sample.
"""

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
_Words = npt.NDArray[np.uint64]

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_WORD = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ROUNDS = 10


def uniform(seed: int, epoch: int, positions: npt.ArrayLike, count: int, stream: int = 0) -> Doubles:
    """[B, count] draws in [0, 1) for each position of an epoch. Different streams are independent."""
    blocks = -(-count // 4)
    position = np.asarray(positions, dtype=np.uint64)[:, None]
    block = np.arange(blocks, dtype=np.uint64)[None]
    counter = np.broadcast_arrays(block, position & _WORD, np.uint64(epoch), np.uint64(stream))
    words = philox(counter, (np.uint64(seed) & _WORD, np.uint64(seed) >> _HALF))
    numbers = np.stack(words, axis=-1).reshape(len(position), blocks * 4)[:, :count]
    return numbers.astype(np.float64) * 2.0**-32


def philox(counter: "tuple[_Words, ...] | list[_Words]", key: tuple[np.uint64, np.uint64]) -> list[_Words]:
    """Four 32-bit words for each four-word counter."""
    c0, c1, c2, c3 = (word.astype(np.uint64) for word in counter)
    k0, k1 = key
    for _ in range(_ROUNDS):
        high, low = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (low >> _HALF) ^ c1 ^ k0, low & _WORD, (high >> _HALF) ^ c3 ^ k1, high & _WORD
        k0, k1 = (k0 + _KEY_STEPS[0]) & _WORD, (k1 + _KEY_STEPS[1]) & _WORD
    return [c0, c1, c2, c3]


class DrawTable:
    """Hands out columns of a batch's draws, in a fixed order, so that each draw keeps its number."""

    def __init__(self, draws: Doubles) -> None:
        self._draws, self._next = draws, 0

    def take(self, *shape: int) -> Doubles:
        """[B, *shape] draws in [0, 1) that nobody else gets."""
        count = int(np.prod(shape))
        columns = self._draws[:, self._next : self._next + count]
        assert columns.shape[1] == count, "more draws are taken than were made"
        self._next += count
        return columns.reshape(len(columns), *shape)


def between(low: npt.ArrayLike, high: npt.ArrayLike, draws: Doubles) -> Doubles:
    """Draws in [0, 1) spread over [low, high)."""
    low = np.asarray(low, dtype=np.float64)
    spread: Doubles = low + (np.asarray(high) - low) * draws
    return spread


def whole(count: npt.ArrayLike, draws: Doubles) -> npt.NDArray[np.int64]:
    """Whole numbers 0 … count - 1."""
    limit = np.asarray(count, dtype=np.int64)
    return np.minimum((draws * limit).astype(np.int64), limit - 1)


def beta_8_8(draws: Doubles) -> Doubles:
    """Beta(8, 8) from 15 draws along the last axis: the middle one of 15 uniform numbers has exactly that law."""
    assert draws.shape[-1] == 15
    middle: Doubles = np.sort(draws, axis=-1)[..., 7]
    return middle
