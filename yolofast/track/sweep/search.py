"""Many settings on many sequences, on all cores. What is done is recorded at once, and not done again.

Workers read the sequences once, when they start; a task is some settings and the number of a sequence. They are started
afresh instead of forked: a fork of a process that has used a GPU, or has threads, may hang. Sequences come by a file: a
pipe would hold up the start of the next worker until this one has imported everything. The file has no name, and is
handed over open: nothing of it is left on disk, even if the search is killed.
"""

import hashlib
import mmap
import multiprocessing
import os
import pickle
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

import numpy as np

from yolofast.errors import UserError
from yolofast.interrupts import interrupts_wait, leave_interrupts_to_parent
from yolofast.track.formats.sequence import Floats
from yolofast.track.sweep.record import Record
from yolofast.track.sweep.scene import Scene
from yolofast.track.sweep.space import Trial, key_of, simplest, words_of
from yolofast.track.sweep.trial import MOST_TOGETHER, evaluate, together

_WAITING = 4
"""Tasks per worker that are handed out: few, so that a search ends soon after it is interrupted."""
_PARTS = 2
"""Parts that a worker gets at least, so that all end at about the same time."""
OnProgress = Callable[[int, int, Trial, Floats], None]
"""Settings done, settings in all, and the one that is."""


@dataclass(frozen=True, eq=False)
class Search:
    scenes: tuple[Scene, ...]
    trials: tuple[Trial, ...]
    faithful: bool = False

    def digest(self) -> str:
        parts = [scene.digest() for scene in self.scenes]
        return hashlib.sha256(f"{self.faithful} {' '.join(parts)}".encode()).hexdigest()[:32]


@dataclass(frozen=True, eq=False)
class Searched:
    """`rows` [trials, sequences, WIDTH]: settings without effect have the rows of those that are equal to them."""

    trials: tuple[Trial, ...]
    sequences: tuple[str, ...]
    rows: Floats
    distinct: int
    """Settings that can differ at all."""


def run_search(
    search: Search, folder: Path, workers: int, on_progress: OnProgress = lambda *_: None,
    on_known: Callable[[Floats], None] = lambda _: None,
) -> Searched:  # fmt: skip
    """Continues what is in the folder; `on_known` gets the rows of each setting that is there.

    Raises KeyboardInterrupt after what was done is recorded.
    """
    record = Record(folder, [scene.name for scene in search.scenes], search.digest())
    simple = {key_of(trial): key_of(simplest(trial)) for trial in search.trials}
    distinct = {key_of(one): one for one in map(simplest, search.trials)}
    missing = [trial for key, trial in distinct.items() if key not in record.rows]
    try:
        done = len(distinct) - len(missing)
        for key in distinct.keys() & record.rows.keys():
            on_known(record.rows[key])
        for trial, rows in _evaluated(search, missing, workers):
            record.add(trial, rows)
            done += 1
            on_progress(done, len(distinct), trial, rows)
    finally:
        record.close()
    rows = np.stack([record.rows[simple[key_of(trial)]] for trial in search.trials])
    return Searched(search.trials, tuple(scene.name for scene in search.scenes), rows, len(distinct))


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _evaluated(search: Search, trials: Sequence[Trial], workers: int) -> Iterator[tuple[Trial, Floats]]:
    """Settings in the order in which they are done, each with the rows of all sequences."""
    most = max(1, min(MOST_TOGETHER, len(trials) // (_PARTS * workers)))
    parts = together(trials, most, faithful=search.faithful)
    workers = min(workers, len(parts) * len(search.scenes))
    if workers <= 1:
        for part in parts:
            rows = [evaluate(scene, part, faithful=search.faithful) for scene in search.scenes]
            yield from zip(part, np.stack(rows, axis=1), strict=True)
        return
    with tempfile.TemporaryFile() as file:
        pickle.dump(search.scenes, file)
        file.flush()
        context = multiprocessing.get_context("spawn")
        with _deaf():  # it starts a process that looks after its locks
            pool = ProcessPoolExecutor(workers, context, _start, (_Open(file.fileno()), search.faithful))
        yield from _by_workers(pool, search, parts, _WAITING * workers)


def _by_workers(
    pool: ProcessPoolExecutor, search: Search, parts: Sequence[list[Trial]], most: int
) -> Iterator[tuple[Trial, Floats]]:
    others = multiprocessing.active_children()
    try:
        yield from _from_pool(pool, search, parts, most)
    except BrokenProcessPool:
        what = "a worker has ended unexpectedly, perhaps for want of memory; what is done is recorded"
        raise UserError(what, fix="run the command again with fewer --workers: it continues") from None
    except (KeyboardInterrupt, GeneratorExit):  # what they work on may take minutes, and is not waited for
        for one in multiprocessing.active_children():
            if one not in others:
                one.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes that start here never hear Ctrl-C, not even while they import. This one hears it at the end."""
    with interrupts_wait():
        resource_tracker.ensure_running()  # it would end the deafness
    with interrupts_wait():
        yield


def _from_pool(
    pool: ProcessPoolExecutor, search: Search, parts: Sequence[list[Trial]], most: int
) -> Iterator[tuple[Trial, Floats]]:
    count = len(search.scenes)
    tasks = iter([(place, scene) for place in range(len(parts)) for scene in range(count)])
    waiting: dict[Future[Floats], tuple[int, int]] = {}
    done: dict[int, dict[int, Floats]] = {}
    while True:
        with _deaf():  # a task may start a worker
            while len(waiting) < most and (task := next(tasks, None)) is not None:
                waiting[pool.submit(_task, parts[task[0]], task[1])] = task
        if not waiting:
            return
        for future in wait(waiting, return_when=FIRST_COMPLETED).done:
            place, scene = waiting.pop(future)
            own = done.setdefault(place, {})
            own[scene] = future.result()
            if len(own) == count:
                rows = np.stack([own[one] for one in range(count)], axis=1)
                yield from zip(parts[place], rows, strict=True)
                del done[place]


_scenes: tuple[Scene, ...] = ()
_faithful = False


class _Open:
    """An open file, also in a worker that is started with it."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _handed, (DupFd(self.number),)


def _handed(file: Any) -> _Open:
    return _Open(file.detach())


def _start(scenes: _Open, faithful: bool) -> None:
    """In a worker."""
    global _scenes, _faithful
    leave_interrupts_to_parent()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with mmap.mmap(scenes.number, 0, access=mmap.ACCESS_READ) as written:  # workers share the place they read from
        _scenes, _faithful = pickle.loads(written), faithful
    os.close(scenes.number)


def _end_with_parent() -> None:
    """Workers hold the ends of one another's pipes: without their parent they would wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _task(trials: list[Trial], scene: int) -> Floats:
    try:
        return evaluate(_scenes[scene], trials, faithful=_faithful)
    except UserError as error:
        raise UserError(f"{_scenes[scene].name}, {words_of(trials[0])}: {error.what}", fix=error.fix) from None
