"""A few forked processes that work on tasks; results come back in the order the tasks were given.

Forked, because a worker then has the data set, its images and the shared memory without a copy, in milliseconds;
spawned ones would import PyTorch and unpickle the index each. The usual objection, locks held by other threads at the
moment of forking, is met by what a worker does: NumPy, OpenCV without threads and single-threaded PyTorch, nothing of
CUDA.

Each worker has a socket of its own. There is no lock in common that a killed worker could take with it, and its death
is an end of file. A worker whose parent is gone finds that out within a second.
"""

import contextlib
import gc
import os
import pickle
import signal
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any

import cv2
import torch

from yolofast.errors import UserError

Work = Callable[[Any], tuple[Any, int | None]]
"""A task in; a result, and possibly an open file, out."""

_ORPHAN_CHECK_S = 1.0
_ALIVE_CHECK_S = 5.0
_PATIENCE_S = 5.0


@dataclass
class _Worker:
    number: int
    process: BaseProcess
    connection: Connection
    tasks: int = 0
    """Given and not yet answered."""


@dataclass(frozen=True)
class _Answer:
    task: int
    result: Any
    failed: bool
    has_file: bool


class WorkerPool:
    def __init__(self, count: int, work: Work) -> None:
        self._workers: list[_Worker] = []
        self._answers: dict[int, tuple[_Answer, int | None]] = {}
        self._stop = weakref.finalize(self, _stop, self._workers, self._answers, os.getpid())
        self._given = self._collected = 0
        with _no_interrupt(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)  # see above
            for number in range(count):
                self._workers.append(self._started(number, work))

    @property
    def pending(self) -> int:
        """Tasks whose results have not been collected."""
        return self._given - self._collected

    def processes(self) -> list[int]:
        return [worker.process.pid or 0 for worker in self._workers]

    def submit(self, task: Any) -> None:
        worker = min(self._workers, key=lambda worker: worker.tasks)
        with self._closing_if_interrupted():
            try:
                worker.connection.send((self._given, task))
            except OSError:
                raise self._death_of(worker) from None
        worker.tasks += 1
        self._given += 1

    def collect(self) -> tuple[Any, int | None]:
        """The result of the oldest task that was not collected yet, or its exception."""
        answer, file = self._next_answer()
        if answer.failed:
            raise answer.result
        return answer.result, file

    def discard(self) -> None:
        """Wait for what is under way, and forget it."""
        while self.pending:
            _close_file(self._next_answer()[1])

    @property
    def is_open(self) -> bool:
        return bool(self._stop.alive)

    def close(self) -> None:
        """End all workers, whatever they are doing: they own nothing that could be left half done."""
        self._stop()

    @contextlib.contextmanager
    def _closing_if_interrupted(self) -> Iterator[None]:
        """After half a message nothing that follows could be understood."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _started(self, number: int, work: Work) -> _Worker:
        context, name = get_context("fork"), f"yolofast-data-{number}"
        try:
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, work, os.getpid()), name=name, daemon=True)
            process.start()
        except OSError as error:
            self.close()
            what = f"data worker {number} could not be started: {error.strerror}"
            raise UserError(what, fix="use fewer --workers") from None
        theirs.close()
        return _Worker(number, process, ours)

    def _next_answer(self) -> tuple[_Answer, int | None]:
        assert self.pending, "nothing was submitted"
        with self._closing_if_interrupted():
            while self._collected not in self._answers:
                self._receive()
        self._collected += 1
        return self._answers.pop(self._collected - 1)

    def _receive(self) -> None:
        """Wait for some answers, or find out that none will come."""
        ready = wait([worker.connection for worker in self._workers], timeout=_ALIVE_CHECK_S)
        for worker in self._workers:
            if worker.connection in ready:
                try:
                    answer: _Answer = worker.connection.recv()
                    file = recv_handle(worker.connection) if answer.has_file else None
                except (EOFError, OSError):
                    raise self._death_of(worker) from None
                self._answers[answer.task] = answer, file
                worker.tasks -= 1
            elif not ready and not worker.process.is_alive():
                raise self._death_of(worker)

    def _death_of(self, worker: _Worker) -> UserError:
        worker.process.join(_PATIENCE_S)
        code = worker.process.exitcode
        how = f"by {signal.Signals(-code).name}" if code is not None and code < 0 else f"with exit code {code}"
        fix = "find out why with --workers 0, which does the same work in the training process"
        if code == -signal.SIGKILL:
            fewer = "use fewer --workers, a smaller --batch-size or --cache disk"
            fix = f"most likely memory ran out (see `dmesg`): {fewer}"
        return UserError(f"data worker {worker.number} (process {worker.process.pid}) was ended {how}", fix=fix)


def _close_file(file: int | None) -> None:
    if file is not None:
        os.close(file)


def _stop(workers: list[_Worker], answers: dict[int, tuple[_Answer, int | None]], owner: int) -> None:
    if os.getpid() != owner:  # a forked copy of the pool: the processes are not its own
        return
    while answers:
        _close_file(answers.popitem()[1][1])
    with _no_interrupt():  # an interrupt halfway would leave the others running
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.process.join(_PATIENCE_S)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.connection.close()
            worker.process.close()
        workers.clear()


def _serve(connection: Connection, work: Work, parent: int) -> None:
    """What a worker does until its parent closes the connection or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    gc.freeze()  # looking for garbage among what is shared would copy it, page by page
    cv2.setNumThreads(0)  # not 1, which would wait for threads that were not forked
    torch.set_num_threads(1)
    with contextlib.suppress(EOFError, OSError):  # the training process is gone
        for number, task in _tasks(connection, parent):
            answer, file = _answer(number, task, work)
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


def _answer(number: int, task: Any, work: Work) -> tuple[_Answer, int | None]:
    try:
        result, file = work(task)
    except Exception as error:  # noqa: BLE001 - it is raised again where the result is collected
        return _Answer(number, _portable(error), failed=True, has_file=False), None
    return _Answer(number, result, failed=False, has_file=file is not None), file


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


@contextlib.contextmanager
def _no_interrupt() -> Iterator[None]:
    """Keep Ctrl-C, while workers start, until they ignore it: in their first moments each would print a traceback.

    Blocked here, it may still be given to another thread, and Python then raises its exception in the main one: in a
    callback of the fork (`logging` has some), where it is printed and lost. So it is noted, and handled afterwards.
    """
    handler, noted = signal.getsignal(signal.SIGINT), list[int]()
    raises_here = callable(handler) and threading.current_thread() is threading.main_thread()
    if raises_here:
        signal.signal(signal.SIGINT, lambda number, frame: noted.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if raises_here:
            signal.signal(signal.SIGINT, handler)
        if noted and callable(handler):
            handler(signal.SIGINT, None)
