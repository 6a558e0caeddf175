"""The built-in data set `shapes`: eight kinds of shapes on cluttered backgrounds, generated, the same on every machine.

It gives first runs, tests and demonstrations something to learn without a download. A generated data set is made in a
temporary folder and renamed, so it is there completely or not at all. Of two processes that make the same one, the
second finds it done. Files are not flushed to the disk one by one, which would take longer than drawing them; a picture
that a power cut emptied is noticed the next time.
"""

import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from yolofast.dataset.shapes.files import VERSION, is_complete, is_shapes, write_files
from yolofast.errors import UserError, shorten
from yolofast.files.atomic_file import user_cache_folder

MOST_PICTURES = 1_000_000
"""What fits file names of six digits."""


class GeneratedData(Protocol):
    """A data set that can be generated."""

    def write(self, folder: Path) -> None:
        """All of it, into an empty folder."""

    def is_complete(self, folder: Path) -> bool:
        """Whether the folder holds exactly what is requested."""

    def is_such(self, folder: Path) -> bool:
        """Whether the folder holds such a data set, whatever was requested."""


@dataclass(frozen=True)
class _Pictures:
    n: int
    seed: int

    def write(self, folder: Path) -> None:
        write_files(folder, self.n, self.seed)

    def is_complete(self, folder: Path) -> bool:
        return is_complete(folder, self.n, self.seed)

    def is_such(self, folder: Path) -> bool:
        return is_shapes(folder)


def make_shapes(folder: str | Path, n: int = 1000, seed: int = 0) -> Path:
    """Makes n pictures to train on and n/5 to validate, unless they are there already; returns the data yaml."""
    if not 1 <= n <= MOST_PICTURES:
        raise UserError(f"the number of pictures must be from 1 to {MOST_PICTURES:,}, not {shorten(n)}", fix="--n 1000")
    check_seed(seed)
    return make_once(folder, _Pictures(n, seed)) / "data.yaml"


def check_seed(seed: int) -> None:
    if not 0 <= seed < 2**64:
        raise UserError(f"the seed must be from 0 to 2^64 - 1, not {shorten(seed)}", fix="--seed 0")


def shapes_data_yaml(n: int = 1000, seed: int = 0) -> Path:
    """The data yaml of the data set in the user's cache folder; the first call makes it, which takes seconds."""
    return make_shapes(shapes_folder(n, seed), n, seed)


def shapes_folder(n: int = 1000, seed: int = 0) -> Path:
    """Where `shapes_data_yaml` keeps it."""
    return user_cache_folder() / f"shapes-v{VERSION}-n{n}-seed{seed}"


def is_made(folder: str | Path, n: int = 1000, seed: int = 0) -> bool:
    """Whether `make_shapes` would find nothing to do."""
    return is_complete(resolved(folder), n, seed)


def make_once(folder: str | Path, request: GeneratedData) -> Path:
    """The folder, which holds the data set in the end, whoever made it; raises `UserError`."""
    folder = resolved(folder)
    obstacle = _obstacle(folder, request)  # looked for first: what another process finishes meanwhile is no obstacle
    if request.is_complete(folder):
        return folder
    if obstacle:
        raise obstacle
    try:
        _make(folder, request)
    except OSError as error:
        what = f"the data set could not be written: {error.strerror or error}"
        cached = folder.is_relative_to(resolved(user_cache_folder()))
        also = "; or set YOLOFAST_CACHE to a folder that can be written" if cached else ""
        raise UserError(what, where=folder, fix=f"check permissions and that the disk has room{also}") from error
    return folder


def resolved(folder: str | Path) -> Path:
    try:
        return Path(folder).expanduser().resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a null byte, a loop of links, an unknown ~user
        raise UserError(f"{shorten(str(folder))} is not a folder name: {error}", fix="name a new folder") from None


def _obstacle(folder: Path, request: GeneratedData) -> UserError | None:
    """What keeps the data set from being made there. Nothing of the user's is replaced, only an empty folder."""
    if not os.path.lexists(folder):
        return None
    if not folder.is_dir():
        return UserError("is a file", where=folder, fix="name a new folder")
    if folder == Path.cwd():
        return UserError("is the current folder, which cannot be replaced", where=folder, fix="name a new folder in it")
    if request.is_such(folder):
        what = "holds shapes already, but made with other settings, by another version, or incomplete"
        return UserError(what, where=folder, fix="delete that folder, or name a new one")
    try:
        occupied = any(folder.iterdir())
    except OSError as error:
        return UserError(f"cannot be read: {error.strerror}", where=folder, fix="name a new folder")
    return UserError("is not empty", where=folder, fix="name a new folder") if occupied else None


def _make(folder: Path, request: GeneratedData) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp")
    temporary.mkdir()
    try:
        request.write(temporary)
        try:
            if folder.exists():
                folder.rmdir()  # it was empty; Windows does not rename onto a folder
            temporary.rename(folder)
        except OSError:
            if not request.is_complete(folder):  # it is when another process was faster
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
