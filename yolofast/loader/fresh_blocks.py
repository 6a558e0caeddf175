"""Plain transport: every batch in shared memory of its own, as PyTorch's loader does it.

The worker renders into the new memory and sends its file; boxes are pickled. A batch stays valid as long as anyone
holds it. The price is new pages, cleared by the system and mapped twice, for every batch.
"""

import mmap
import os
from typing import Any

import numpy as np
import torch
from torch import Tensor

from yolofast.loader.batch_maker import BatchMaker, Job
from yolofast.loader.carrier import Reply
from yolofast.loader.shared_block import SharedBlock
from yolofast.structures import Targets


class FreshBlocks:
    def make(self, maker: BatchMaker, job: Job, turn: int) -> tuple[Reply, int | None]:
        shape = maker.shape(job)
        block = SharedBlock(int(np.prod(shape)))
        try:
            made = maker.make(job, np.frombuffer(block.memory, np.uint8).reshape(shape))
        except BaseException:
            block.close_file()
            raise
        targets = made.targets
        parcel = (targets.boxes.numpy(), targets.labels.numpy(), targets.valid.numpy())
        return (parcel, made.mix, made.skipped), block.file

    def take(
        self, shape: tuple[int, int, int, int], turn: int, parcel: Any, file: int | None
    ) -> tuple[Tensor, Targets]:
        assert file is not None
        memory = mmap.mmap(file, int(np.prod(shape)))
        os.close(file)
        images = torch.frombuffer(memory, dtype=torch.uint8).reshape(shape)
        return images, Targets(*map(torch.from_numpy, parcel))

    def close(self) -> None:
        """Nothing is held."""
