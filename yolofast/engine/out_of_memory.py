"""When memory runs out: the state of the run is carried to safety, and messages say what would fit."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from yolofast.engine.checkpoints import on_host
from yolofast.errors import UserError


class EpochOutOfMemoryError(Exception):
    """Memory ran out in an epoch; `state` is that of its start, in host memory, in the form of a checkpoint."""

    def __init__(self, state: dict[str, Any]) -> None:
        super().__init__("memory ran out")
        self.state = on_host(state)


@contextmanager
def fix_if_memory_runs_out(what: str, fix: str) -> Iterator[None]:
    """Where the batch of training is not to blame."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise UserError(f"memory ran out {what}", fix=fix) from error
