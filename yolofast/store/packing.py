"""Image files -> a packed store: every image decoded once, all or nothing, by one process while the others wait.

Writes go to a partial file with a journal, from which a later call continues. The store appears by renaming. A store
whose images have changed is replaced by a new one, into which the unchanged images are copied rather than decoded.
"""

import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from yolofast.errors import UserError
from yolofast.files.atomic_file import name_beside, remove_abandoned, sync_folder
from yolofast.files.lock import locked
from yolofast.files.threads import in_order, usable_cores
from yolofast.image_index import ImageIndex
from yolofast.store.choose import JPEG_SHARE, disk_free
from yolofast.store.fitted import Fit, read_as_jpeg, read_fitted
from yolofast.store.journal import Journal, completed
from yolofast.store.packed_store import (
    PackedStore,
    Records,
    read_store,
    same_source,
    source_states,
    store_name,
    stored_bytes,
    write_store,
)
from yolofast.words import amount, own_command

Progress = Callable[[int, int], None]
"""Called with how many images are done, and how many there are."""
Say = Callable[[str], None]
Flavour = Literal["pixels", "jpeg"]
FLAVOURS: tuple[Flavour, ...] = get_args(Flavour)

_MOST_NAMED = 10


def pack(
    index: ImageIndex,
    width: int,
    height: int,
    folder: Path,
    *,
    flavour: Flavour = "pixels",
    augmented: bool = True,
    threads: int | None = None,
    progress: Progress | None = None,
    say: Say | None = None,
) -> PackedStore:
    """The store of all images fitted to width × height, in `folder`; made if it is not there.

    `augmented` says how images that shrink are resized: linearly, or else averaged over areas. As JPEG a store has
    about a seventh of the size of plain pixels, and an image is decoded whenever it is used. A JPEG file that needs
    neither resizing nor turning is taken as it is; others are encoded at quality 95.
    """
    return PackJob(index, Fit(width, height, augmented), flavour, folder).run(threads, progress, say)


pack_jpeg = partial(pack, flavour="jpeg")


@dataclass(frozen=True)
class PackJob:
    """One store to be made: which images, fitted how, stored as what, and where."""

    index: ImageIndex
    fit: Fit
    flavour: Flavour
    folder: Path

    @property
    def name(self) -> str:
        return store_name(self.index, self.fit, self.flavour)

    def run(self, threads: int | None, progress: Progress | None, say: Say | None) -> PackedStore:
        if threads is not None and threads < 0:
            raise UserError(f"images cannot be packed by {threads} threads", fix="give a number above 0")
        name = self.name
        index_file = self.folder / f"{name}.index"
        if (store := self._finished(index_file)) is not None:
            return store

        def waiting() -> None:
            if say is not None:
                say(f"another process is packing {self.folder / name}; waiting for it")

        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with locked(self.folder / f"{name}.lock", waiting):
                if (store := self._finished(index_file)) is not None:
                    return store
                return self._make(name, index_file, threads or usable_cores(), progress)
        except OSError as error:
            what = f"the store could not be written: {error.strerror}"
            fix = "make room or name another folder; what is packed already is kept, and the next run continues"
            raise UserError(what, where=self.folder, fix=fix) from error

    def taken_bytes(self) -> int:
        """What an existing store, finished or not, already takes of the disk."""
        name, taken = self.name, 0
        for pattern in (f"{name}.partial", f"{name}-*.{self.flavour}"):  # in the order a pack elsewhere renames them
            for file in self.folder.glob(pattern):
                with suppress(OSError):
                    taken = max(taken, file.stat().st_size)
        return taken

    def pixel_bytes(self) -> npt.NDArray[np.int64]:
        """[N] bytes of each image as plain pixels."""
        sizes = self.fit.sizes(self.index.sizes)
        return sizes[:, 0] * sizes[:, 1] * 3

    def _finished(self, index_file: Path) -> PackedStore | None:
        """The store, if it is whole and its image files are unchanged, with the pixels that they have."""
        store = read_store(index_file)
        if store is None or not store.is_whole() or not np.array_equal(store.files, self.index.files):
            return None
        if not np.array_equal(store.sizes, self.fit.sizes(self.index.sizes)):
            return None
        if self.flavour == "pixels" and not np.array_equal(store.records["length"], self.pixel_bytes()):
            return None
        return store if same_source(store.records, source_states(self.index.files)).all() else None

    def _make(self, name: str, index_file: Path, threads: int, progress: Progress | None) -> PackedStore:
        remove_abandoned(self.folder, index_file.name)
        sources = source_states(self.index.files)
        lengths = self.pixel_bytes()
        unfinished, journal_file = self.folder / f"{name}.partial", self.folder / f"{name}.journal"
        done = completed(unfinished, journal_file, sources, lengths if self.flavour == "pixels" else None)
        share = JPEG_SHARE if self.flavour == "jpeg" else 1
        check_space(int(lengths[len(done) :].sum() * share), self.folder, self.flavour)
        with closing(Journal(unfinished, journal_file, done)) as journal:
            self._fill(journal, read_store(index_file), threads, progress)
            journal.sync()
            store = self._publish(journal, name, index_file)
        # Data of earlier versions of this store goes; a process that has mapped it keeps it until done.
        for file in self.folder.glob(f"{name}-*.{self.flavour}"):
            if file != store.data:
                file.unlink(missing_ok=True)
        return store

    def _fill(self, journal: Journal, outdated: PackedStore | None, threads: int, progress: Progress | None) -> None:
        done, total, bad = len(journal.records), len(self.index), []
        with closing(in_order(lambda image: self.stored_form(image, outdated), range(done, total), threads)) as work:
            for image, made in enumerate(work, done):
                if isinstance(made, UserError):
                    bad.append(made)
                elif not bad:  # after a bad image the others are only looked at, to name all bad ones at once
                    journal.append(*made)
                if progress is not None:
                    progress(image + 1, total)
        if bad:
            journal.discard()  # removing the bad files makes it another store, which cannot continue this one
            raise _bad_images(bad, total)

    def stored_form(self, image: int, outdated: PackedStore | None = None) -> tuple[Records, memoryview] | UserError:
        """The record and bytes of one image, or what is wrong with it."""
        file, size = self.index.path(image), self.index.sizes[image]
        # Before reading: a file that changes in between is packed again next time.
        record = source_states(self.index.files[image : image + 1])
        try:
            if (unchanged := _unchanged_bytes(outdated, image, record)) is not None:
                content = memoryview(unchanged)
            elif self.flavour == "jpeg":
                content = memoryview(read_as_jpeg(file, size, self.fit))
            else:
                content = read_fitted(file, size, self.fit).data
        except UserError as error:
            return error
        record["length"], record["checksum"] = content.nbytes, zlib.crc32(content)
        return record, content

    def note_change(self, store: PackedStore, image: int, record: Records | None) -> None:
        """Of one image of a finished store. Without a record its bytes are wrong, and the next pack makes them anew."""
        index_file = self.folder / f"{self.name}.index"
        with locked(self.folder / f"{self.name}.lock", lambda: None):
            now = read_store(index_file)
            if now is None or now.data != store.data:  # another process has replaced it
                return
            records = now.records.copy()
            if record is None:
                records["source_mtime_ns"][image] = -1
            else:
                records[image] = record[0]
            new_index = name_beside(index_file)
            write_store(replace(now, records=records), new_index)
            new_index.replace(index_file)

    def _publish(self, journal: Journal, name: str, index_file: Path) -> PackedStore:
        """Gives both files their names. The data's is its own for every content, so the old index stays true until
        the new one takes its place."""
        records = journal.records
        data = self.folder / f"{name}-{zlib.crc32(records.tobytes()):08x}.{self.flavour}"
        store = PackedStore(data, self.index.files, self.fit.sizes(self.index.sizes), records)
        new_index = name_beside(index_file)
        write_store(store, new_index)
        journal.data.replace(data)
        new_index.replace(index_file)
        sync_folder(self.folder)
        journal.discard()
        return store


def _unchanged_bytes(outdated: PackedStore | None, image: int, source: Records) -> bytes | None:
    """An image as an outdated store of the same files has it; None if its file has changed or the bytes are damaged."""
    if outdated is None or not same_source(outdated.records[[image]], source)[0]:
        return None
    try:
        with outdated.data.open("rb") as file:
            return stored_bytes(outdated.records[image], file.fileno())
    except FileNotFoundError:
        return None


def check_space(needed: int, folder: Path, flavour: Flavour) -> None:
    free = disk_free(folder)
    if needed > free:
        smaller = "--cache jpeg, about a seventh of it" if flavour == "pixels" else "--cache off, which takes none"
        what = f"packing the images needs {amount(needed)}, but only {amount(free)} of the disk are free"
        raise UserError(what, where=folder, fix=f"make room, name another folder, or use {smaller}")


def _bad_images(bad: list[UserError], total: int) -> UserError:
    lines = [f"\n  {error.where}: {error.what}" for error in bad[:_MOST_NAMED]]
    more = [f"\n  … and {len(bad) - _MOST_NAMED:,} more"] if len(bad) > _MOST_NAMED else []
    what = f"{len(bad):,} of {total:,} images cannot be packed:" + "".join(lines + more)
    return UserError(what, fix=f"restore or remove them; {own_command()} check shows every fault of a data set")
