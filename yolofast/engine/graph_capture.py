"""A CUDA graph is captured beside other threads of the process, and a capture that fails leaves nothing behind."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def captured_into(graph: Any, pool: Any = None) -> Iterator[None]:
    """Only this thread must leave the driver alone meanwhile: a loader's makes plans, in pinned memory it asks for."""
    with _random_numbers_after_failure(), torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        yield


@contextmanager
def _random_numbers_after_failure() -> Iterator[None]:
    """A capture that fails leaves torch's generator believing that it goes on; the next random number would raise."""
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    before = generator.clone_state()
    try:
        yield
    except BaseException:
        generator.graphsafe_set_state(before)
        raise
