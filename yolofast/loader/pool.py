"""A few processes that work on tasks; results come back in the order the tasks were given.

On Linux they are forked: a worker then has the data set, its images and the shared memory without a copy, in
milliseconds; spawned ones import PyTorch and unpickle the index each. The usual objection, locks held by other threads
at the moment of forking, is met by what a worker does: NumPy, OpenCV without threads and single-threaded PyTorch,
nothing of CUDA. Windows cannot fork, and on macOS libraries of the system do not survive it: there they are spawned, as
in a program that has chosen that by `multiprocessing.set_start_method("spawn")`.

Each worker has a connection of its own. There is no lock in common that a killed worker could take with it, and its
death is an end of file. A worker whose parent is gone finds that out within a second.

A worker notes every image it begins in memory that it shares with its parent. One that has work and begins nothing for
`timeout` seconds, in a drive that does not answer, is stuck: it is ended, and a new one gets its tasks. Each worker is
replaced once; if the new one gets stuck too, in whatever task or epoch, the run ends. Only seconds in which the parent
itself waits count, so that processes which were stopped together continue together.
"""

import contextlib
import os
import signal
import socket
import struct
import sys
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import get_context, get_start_method
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import recv_handle
from typing import Any

from yolofast.errors import UserError
from yolofast.interrupts import interrupts_wait
from yolofast.loader.worker import Answer, Beats, Work, serve

_ALIVE_CHECK_S = 5.0
_LOOKS = 10
"""At the beats, within the time that a worker has."""
_PATIENCE_S = 5.0


def workers_are_forked() -> bool:
    return sys.platform == "linux" and get_start_method(allow_none=True) != "spawn"


@dataclass
class _Worker:
    number: int
    process: BaseProcess
    connection: Connection
    tasks: dict[int, Any] = field(default_factory=dict)
    """Given and not yet answered."""
    seen: int = 0
    """Its last beat that was seen."""
    silent: float = 0.0
    """Seconds that were waited since."""


class WorkerPool:
    def __init__(
        self,
        count: int,
        work: Work,
        *,
        timeout: float = 0,
        image_name: Callable[[int], str] = str,
        say: Callable[[str], None] = warnings.warn,
        replaced: set[int] | None = None,
    ) -> None:
        """`timeout` 0 waits without end; `say` gets a message for each worker that is replaced.

        `replaced` are the numbers of those that were, for pools that follow one another.
        """
        self._work, self._timeout, self._image_name, self._say = work, timeout, image_name, say
        self._beats = Beats(count, workers_are_forked())
        self._replaced = set() if replaced is None else replaced
        self._workers: list[_Worker] = []
        self._answers: dict[int, tuple[Answer, int | None]] = {}
        self._stop = weakref.finalize(self, _stop, self._workers, self._answers, os.getpid())
        self._given = self._collected = 0
        with interrupts_wait():
            for number in range(count):
                self._workers.append(self._started(number))

    @property
    def pending(self) -> int:
        """Tasks whose results have not been collected."""
        return self._given - self._collected

    def processes(self) -> list[int]:
        return [worker.process.pid or 0 for worker in self._workers]

    def submit(self, task: Any) -> None:
        worker = min(self._workers, key=lambda worker: len(worker.tasks))
        with self._closing_if_interrupted():
            self._give(worker, self._given, task)
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

    def _started(self, number: int) -> _Worker:
        name = f"yolofast-data-{number}"
        context = get_context("fork") if workers_are_forked() else get_context("spawn")
        try:
            ours, theirs = context.Pipe()
            if self._timeout:
                _limit_reading(ours, self._timeout)
            task = theirs, self._work, self._beats.of(number), os.getpid()
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)  # see above
                process = context.Process(target=serve, args=task, name=name, daemon=True)
                process.start()
        except OSError as error:
            self.close()
            what = f"data worker {number} could not be started: {error.strerror}"
            raise UserError(what, fix="use fewer --workers") from None
        theirs.close()
        return _Worker(number, process, ours)

    def _next_answer(self) -> tuple[Answer, int | None]:
        assert self.pending, "nothing was submitted"
        with self._closing_if_interrupted():
            while self._collected not in self._answers:
                self._receive()
        self._collected += 1
        return self._answers.pop(self._collected - 1)

    def _give(self, worker: _Worker, number: int, task: Any) -> None:
        worker.tasks[number] = task
        try:
            worker.connection.send((number, task))
        except OSError:
            raise self._death_of(worker) from None

    def _receive(self) -> None:
        """Wait for some answers, or find out that none will come."""
        longest, began = min(_ALIVE_CHECK_S, self._timeout / _LOOKS or _ALIVE_CHECK_S), time.monotonic()
        ready = wait([worker.connection for worker in self._workers], timeout=longest)
        waited = min(time.monotonic() - began, longest)
        for worker in tuple(self._workers):
            if worker.connection in ready:
                self._take_answer(worker)
            elif not ready and not worker.process.is_alive():
                raise self._death_of(worker)
            elif self._timeout and self._is_silent(worker, waited):
                self._replace(worker)

    def _take_answer(self, worker: _Worker) -> None:
        try:
            answer: Answer = worker.connection.recv()
            file = recv_handle(worker.connection) if answer.has_file else None
        except BlockingIOError:  # half of an answer
            self._replace(worker)
            return
        except (EOFError, OSError):
            raise self._death_of(worker) from None
        self._answers[answer.task] = answer, file
        del worker.tasks[answer.task]
        worker.silent = 0.0

    def _is_silent(self, worker: _Worker, waited: float) -> bool:
        beat, _ = self._beats.last(worker.number)
        worker.silent = worker.silent + waited if worker.tasks and beat == worker.seen else 0.0
        worker.seen = beat
        return worker.silent >= self._timeout

    def _replace(self, worker: _Worker) -> None:
        """A stuck worker, by one that gets all it had to do, once."""
        _, image = self._beats.last(worker.number)
        place = self._image_name(image) if image >= 0 else "its start"
        what = (
            f"data worker {worker.number} (process {worker.process.pid}) was stuck for {self._timeout:g} s at {place}"
        )
        if worker.number in self._replaced:
            fix = "see whether its drive answers, then continue with --resume; --worker-timeout 0 waits without end"
            raise UserError(f"{what}, and so was the one before it", fix=fix)
        self._replaced.add(worker.number)
        self._say(f"warning: {what}; another one makes its batches")
        with interrupts_wait():
            _end([worker])
            fresh = self._workers[self._workers.index(worker)] = self._started(worker.number)
        fresh.seen, _ = self._beats.last(worker.number)
        for number, unanswered in worker.tasks.items():
            self._give(fresh, number, unanswered)

    def _death_of(self, worker: _Worker) -> UserError:
        worker.process.join(_PATIENCE_S)
        code = worker.process.exitcode
        how = f"by {signal.Signals(-code).name}" if code is not None and code < 0 else f"with exit code {code}"
        fix = "find out why with --workers 0, which does the same work in the training process"
        if how == "by SIGKILL":
            fewer = "use fewer --workers, a smaller --batch-size or --cache disk"
            fix = f"most likely memory ran out (see `dmesg`): {fewer}"
        return UserError(f"data worker {worker.number} (process {worker.process.pid}) was ended {how}", fix=fix)


def _close_file(file: int | None) -> None:
    if file is not None:
        os.close(file)


def _stop(workers: list[_Worker], answers: dict[int, tuple[Answer, int | None]], owner: int) -> None:
    if os.getpid() != owner:  # a forked copy of the pool: the processes are not its own
        return
    while answers:
        _close_file(answers.popitem()[1][1])
    with interrupts_wait():  # an interrupt halfway would leave the others running
        for worker in workers:
            worker.process.terminate()
        _wait_for(workers)
        _end(workers)
        workers.clear()


def _end(workers: list[_Worker]) -> None:
    """At once. One that waits for a dead drive cannot even be killed: it goes when the drive answers."""
    for worker in workers:
        worker.process.kill()
    _wait_for(workers)
    for worker in workers:
        worker.connection.close()
        if not worker.process.is_alive():
            worker.process.close()


def _wait_for(workers: list[_Worker]) -> None:
    """Together: however many are stuck, nobody waits longer than for one."""
    deadline = time.monotonic() + _PATIENCE_S
    for worker in workers:
        worker.process.join(max(deadline - time.monotonic(), 0))


def _limit_reading(connection: Connection, seconds: float) -> None:
    """Of an answer that has begun to arrive; afterwards reading raises `BlockingIOError`. Pipes of Windows cannot."""
    if os.name != "posix":
        return
    whole = int(seconds)
    limit = struct.pack("@ll", whole, max(int((seconds - whole) * 1e6), 0 if whole else 1))
    with socket.socket(fileno=os.dup(connection.fileno())) as ours:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
