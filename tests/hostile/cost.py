"""What a hostile input may cost: two seconds of the processor and 500 MB."""

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from yolofast.errors import UserError

SECONDS, MEGABYTES = 2, 500


@contextmanager
def cheap() -> Iterator[None]:
    """Memory is what the process never had before: exact enough for bombs, and tracing would take more than they do."""
    started, before = time.process_time(), _peak()
    yield
    assert time.process_time() - started < SECONDS
    assert _peak() - before < MEGABYTES


@contextmanager
def refused(match: str) -> Iterator[None]:
    """Cheaply, with one message."""
    with cheap(), pytest.raises(UserError, match=match) as caught:
        yield
    assert caught.value.fix
    assert len(str(caught.value)) < 2000


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
