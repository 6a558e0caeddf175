"""Packed images compared with their checksums while a run trains; what is damaged is made anew from its image.

A disk that returns other bytes than were written to it would teach the network noise, silently. Reading everything
before a run starts would keep its user waiting, so a thread does it meanwhile, with at most a hundredth of the
machine's cores. New bytes go into the file at once. What a process holds in its own memory is mended by the training
thread, between two batches: nobody else may use the device while a step is captured. One of several ranks that copied
an image to its GPU before another rank mended the file is not told; its next start reads the new bytes.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from yolofast.errors import UserError
from yolofast.files.threads import usable_cores
from yolofast.store.images import JpegImages, OpenStore
from yolofast.store.packed_store import PackedStore, Records, open_data, stored_bytes

_SHARE = 0.01
"""Of the time of all cores."""
_AT_ONCE_S = 0.005
"""Of work between two pauses."""
_MOST_NAMED = 3


@dataclass(frozen=True)
class _Mended:
    opened: OpenStore
    image: int
    content: bytes
    in_file: bool

    def in_memory(self) -> bool:
        """Puts it where this process reads it; False if that is the file."""
        if self.in_file and not self.opened.is_copy:
            return False
        images, start = self.opened.images, int(self.opened.store.records[self.image]["start"])
        if isinstance(images, JpegImages):
            images.replaced[self.image] = np.frombuffer(self.content, np.uint8)
        else:
            pixels = torch.frombuffer(bytearray(self.content), dtype=torch.uint8)
            images.data[start : start + len(pixels)].copy_(pixels)
        return True


class BackgroundCheck:
    """Of the stores a run reads, from `start` to `close`; the training thread calls `mend` now and then."""

    def __init__(self, *, skip_bad: bool = False) -> None:
        """`skip_bad`: an image that is gone is said, and does not end the run."""
        self._stores: list[OpenStore] = []
        self._found: deque[_Mended | UserError] = deque()
        self._skip_bad = skip_bad
        ranks = max(1, int(os.environ.get("LOCAL_WORLD_SIZE") or 1))
        self._core = min(_SHARE * usable_cores() / ranks, 1.0)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, opened: OpenStore) -> None:
        """Smaller ones are looked at first: what is evaluated on before what is trained on."""
        self._stores.append(opened)
        self._stores.sort(key=lambda one: one.store.nbytes)

    def start(self) -> None:
        if self._stores:
            self._thread = threading.Thread(target=self._run, name="yolofast-checksums", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """What has not been looked at yet is not."""
        self._stop.set()
        self.wait()

    def wait(self) -> None:
        """Until everything has been looked at."""
        if self._thread is not None:
            self._thread.join()

    def mend(self, say: Callable[[str], None]) -> bool:
        """Says what was found since the last call. Whether memory has changed, of which forked processes have copies.

        An image that cannot be made anew ends the run, as it does without a store.
        """
        mended: list[_Mended] = []
        while self._found:
            found = self._found.popleft()
            if isinstance(found, _Mended):
                mended.append(found)
            elif self._skip_bad:
                say(f"warning: {found}")
            else:
                raise found
        for line in _words(mended):
            say(line)
        changed = [one.in_memory() for one in mended]
        return any(changed)

    def _run(self) -> None:
        for opened in self._stores:
            if self._stop.is_set():
                return
            try:
                with open_data(opened.store) as file:
                    self._look(opened, file.fileno())
            except UserError as error:  # the file has gone, or is shorter than it was
                self._found.append(error)

    def _look(self, opened: OpenStore, file: int) -> None:
        worked = 0.0
        for image in range(len(opened.store)):
            if self._stop.is_set():
                return
            began = time.thread_time()
            if stored_bytes(opened.store.records[image], file) is None:
                self._found.append(_made_anew(opened, image))
            worked += time.thread_time() - began
            if worked > _AT_ONCE_S:
                self._stop.wait(worked * (1 / self._core - 1))
                worked = 0.0


def _made_anew(opened: OpenStore, image: int) -> _Mended | UserError:
    job, store = opened.job, opened.store
    made = job.stored_form(image)
    if isinstance(made, UserError):
        what = f"the pixels that were packed of it are damaged, and it {made.what}"
        return UserError(what, where=made.where, fix="restore it, then continue with --resume")
    record, content = made[0], bytes(made[1])
    in_file = _written(store, image, record, content)
    if not in_file or record["checksum"][0] != store.records[image]["checksum"]:
        with suppress(OSError):  # where nothing can be written, the next run finds it again
            job.note_change(store, image, record if in_file else None)
    return _Mended(opened, image, content, in_file)


def _written(store: PackedStore, image: int, record: Records, content: bytes) -> bool:
    """In its old place, where it fits: JPEGs of another encoder are longer or shorter."""
    record["start"] = store.records[image]["start"]
    if len(content) != int(store.records[image]["length"]):
        return False
    try:
        with store.data.open("r+b") as file:
            file.seek(int(record["start"][0]))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        return False
    return True


def _words(mended: list[_Mended]) -> list[str]:
    lines = [
        f"warning: {Path(os.fsdecode(one.opened.store.files[one.image]))}: the pixels that were packed of it were "
        f"damaged in {one.opened.store.data}; they are made anew from the image"
        + ("" if one.in_file else ", for this run: the file cannot take them")
        for one in mended[:_MOST_NAMED]
    ]
    more = len(mended) - len(lines)
    return [*lines, f"… and {more:,} more"] if more else lines
