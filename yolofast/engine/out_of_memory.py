"""When memory runs out: the state of the run is carried to safety, and messages say what would fit."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from yolofast.errors import UserError


class EpochOutOfMemoryError(Exception):
    """Memory ran out in an epoch; `state` is that of its start, in host memory, in the form of a checkpoint."""

    def __init__(self, state: dict[str, Any]) -> None:
        super().__init__("memory ran out")
        self.state = on_host(state)


def on_host(value: Any) -> Any:
    """A copy that owns nothing on the device."""
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, dict):
        return {key: on_host(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(on_host(item) for item in value)
    return value


@contextmanager
def fix_if_memory_runs_out(what: str, fix: str) -> Iterator[None]:
    """Where the batch of training is not to blame."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise UserError(f"memory ran out {what}", fix=fix) from error
