"""How a batch gets from the worker that makes it to the process that trains: in memory of its own, or in a ring."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

from yolofast.loader.batch_maker import BatchMaker, Job
from yolofast.structures import BatchMix, Targets

Pixels = npt.NDArray[np.uint8]
Reply = tuple[Any, BatchMix, tuple[str, ...]]
"""What belongs to the batch beside its pixels, what it was put together from, and which images were skipped."""


class Carrier(Protocol):
    """Made before the workers are forked, so that both sides have it."""

    def make(self, maker: BatchMaker, job: Job, turn: int) -> tuple[Reply, int | None]:
        """In a worker: make the batch where it shall lie; the reply, and a file to go with it."""

    def take(
        self, shape: tuple[int, int, int, int], turn: int, parcel: Any, file: int | None
    ) -> tuple[Tensor, Targets]:
        """In the training process: the batch that lies there."""

    def close(self) -> None: ...
