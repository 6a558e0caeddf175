"""A run's folder and its files, opened step by step from the folder that is watched, without following a link.

Run folders may come from strangers: a `results.png`, or the folder itself, could be a link to something private, and
could become one between a look and a read. So each step is opened relative to the one before it, which can no longer be
exchanged then. Pipes and devices are errors instead of an endless wait.
"""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import NamedTuple

_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def can_be_opened_in_steps() -> bool:
    """Windows cannot: there, nothing of a stranger's folder can be shown safely."""
    return os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")


class Stamp(NamedTuple):
    """What changes when a file does."""

    changed_ns: int
    size: int
    inode: int

    @property
    def seconds(self) -> float:
        return self.changed_ns / 1e9


class WatchedFolder(NamedTuple):
    root: Path
    """The folder that is watched; the user has named it, so it may be a link."""
    parts: tuple[str, ...] = ()
    """The way from there."""

    def __truediv__(self, name: str) -> "FolderFile":
        return FolderFile(self, name)

    def below(self, name: str) -> "WatchedFolder":
        return WatchedFolder(self.root, (*self.parts, name))

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Its descriptor; OSError if it is not there any more, or a link."""
        folder = os.open(self.root, os.O_RDONLY | _FOLDER)
        try:
            for part in self.parts:
                inner = os.open(part, os.O_RDONLY | _FOLDER | _NO_LINKS, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)

    def is_there(self) -> bool:
        try:
            with self.opened():
                return True
        except OSError:
            return False

    def entries(self) -> tuple[list[str], list[str]]:
        """Names of its plain files and of its folders; none if it has gone or may not be read."""
        files, folders = list[str](), list[str]()
        try:
            with self.opened() as here, os.scandir(here) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.name)
                    elif entry.is_file(follow_symlinks=False):
                        files.append(entry.name)
        except OSError:
            pass
        return files, folders

    def stamps(self, names: Iterable[str]) -> dict[str, Stamp | None]:
        """None where there is no plain file of that name."""
        try:
            with self.opened() as here:
                return {name: _stamp(name, here) for name in names}
        except OSError:
            return dict.fromkeys(names)


class FolderFile(NamedTuple):
    folder: WatchedFolder
    name: str
    """Without a `/`."""

    def stamp(self) -> Stamp | None:
        return self.folder.stamps([self.name])[self.name]

    def open(self) -> FileIO:
        """For reading bytes; raises OSError, also for links, pipes and devices."""
        with self.folder.opened() as here:
            file = FileIO(os.open(self.name, os.O_RDONLY | _NO_LINKS, dir_fd=here))
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise OSError(errno.EINVAL, "it is a pipe or a device, not a file")
        return file

    def read(self, most: int) -> bytes | None:
        """The whole file; None if it is not there or larger than `most` bytes."""
        try:
            with self.open() as file:
                content = b""
                while len(content) <= most and (part := file.read(most + 1 - len(content))):
                    content += part
        except OSError:
            return None
        return content if len(content) <= most else None


def _stamp(name: str, folder: int) -> Stamp | None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return Stamp(found.st_mtime_ns, found.st_size, found.st_ino) if stat.S_ISREG(found.st_mode) else None
