"""What a worker process does: it makes what it is told to, notes every image it begins, and ends with its parent."""

import contextlib
import gc
import mmap
import os
import pickle
import traceback
from collections.abc import Callable, Iterator
from ctypes import Array, c_longlong, sizeof
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle
from multiprocessing.sharedctypes import RawArray
from typing import Any

import cv2
import torch

from yolofast.errors import UserError
from yolofast.interrupts import leave_interrupts_to_parent

Beat = Callable[[int], None]
"""Called with the image that is begun."""
Work = Callable[[Any, Beat], tuple[Any, int | None]]
"""A task in; a result, and possibly an open file, out."""
_ORPHAN_CHECK_S = 1.0


@dataclass(frozen=True)
class Answer:
    task: int
    result: Any
    failed: bool
    has_file: bool


class Beats:
    """Of each worker: how many images it has begun, and which one was the last."""

    def __init__(self, count: int, forked: bool) -> None:
        numbers = c_longlong * (2 * max(count, 1))
        # What spawned processes can share is a file, in /dev/shm where there is one.
        self._memory = (
            numbers.from_buffer(mmap.mmap(-1, sizeof(numbers))) if forked else RawArray(c_longlong, len(numbers()))
        )
        self._memory[1::2] = [-1] * max(count, 1)

    def of(self, worker: int) -> Beat:
        return partial(_beat, self._memory, worker)

    def last(self, worker: int) -> tuple[int, int]:
        """Which beat it was, and of which image; -1 before the first."""
        return self._memory[2 * worker], self._memory[2 * worker + 1]


def _beat(memory: Array[c_longlong], worker: int, image: int) -> None:
    memory[2 * worker + 1] = image
    memory[2 * worker] += 1


def serve(connection: Connection, work: Work, beat: Beat, parent: int) -> None:
    """What a worker does until its parent closes the connection or is gone."""
    leave_interrupts_to_parent()
    gc.freeze()  # looking for garbage among what is shared would copy it, page by page
    cv2.setNumThreads(0)  # not 1, which would wait for threads that were not forked
    torch.set_num_threads(1)
    with contextlib.suppress(EOFError, OSError):  # the training process is gone
        for number, task in _tasks(connection, parent):
            answer, file = _answer(number, task, work, beat)
            connection.send(answer)
            if file is not None:
                send_handle(connection, file, parent)
                os.close(file)


def _tasks(connection: Connection, parent: int) -> Iterator[tuple[int, Any]]:
    while True:
        # Processes forked later hold copies of the parent's end, so its death need not close the connection.
        while not connection.poll(_ORPHAN_CHECK_S):
            if os.getppid() != parent:
                return
        yield connection.recv()


def _answer(number: int, task: Any, work: Work, beat: Beat) -> tuple[Answer, int | None]:
    try:
        result, file = work(task, beat)
    except Exception as error:  # noqa: BLE001 - it is raised again where the result is collected
        return Answer(number, _portable(error), failed=True, has_file=False), None
    return Answer(number, result, failed=False, has_file=file is not None), file


def _portable(error: Exception) -> Exception:
    """An exception that survives the way to another process, with the worker's traceback if it is a defect."""
    text = "".join(traceback.format_exception(error))
    try:
        copy: Exception = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - whatever an exception's own pickling may do
        copy = RuntimeError(f"{type(error).__name__}: {error}")
    if not isinstance(error, UserError):
        copy.add_note(f"in a data worker:\n{text}")
    return copy
