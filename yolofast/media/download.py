"""A large file from a web address onto the disk: continued where it stopped, and whole or not there."""

import hashlib
import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError

from yolofast.errors import UserError
from yolofast.files.atomic_file import opened_own
from yolofast.media.addresses import PARTIAL, answer
from yolofast.words import amount

_BLOCK = 2**18
_MOST, _MOST_DIGITS = 4 * 2**30, 18
"""Bytes of a file: more than any weights have."""
_NOTHING_MORE = 416
_TOLD_EVERY = 0.2
Progress = Callable[[int, int | None], None]
"""Bytes that are here, and of how many, if that is known."""


def download(address: str, target: Path, sha256: str | None = None, progress: Progress = lambda *_: None) -> str:
    """The sum of the file, which is then there. What has come so far is kept as `NAME.part` until it is whole.

    A file with another sum than the one given is removed: it is not what was asked for.
    """
    part = target.with_name(f"{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _fetch(address, part, progress)
        found = sum_of(part)
        if sha256 is not None and found != sha256:
            part.unlink()
            what = f"the sum of what was downloaded (sha256) is {found}, not {sha256}; it was removed"
            raise UserError(what, where=address, fix="try again; if it stays so, do not use that file")
        part.replace(target)
    except OSError as error:
        what = f"cannot be written: {error.strerror or error}"
        raise UserError(what, where=error.filename or target, fix="make room, or name another place: --out") from error
    return found


def sum_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(address: str, part: Path, progress: Progress) -> None:
    here = part.stat().st_size if part.exists() else 0
    try:
        stream = answer(address, {"Range": f"bytes={here}-"} if here else {})
    except UserError as error:
        if here and isinstance(error.__cause__, HTTPError) and error.__cause__.code == _NOTHING_MORE:
            return  # all of it was here, but for its name
        raise
    with stream:
        if stream.status != PARTIAL:  # a server that sends only whole files
            here = 0
        length = stream.headers.get("Content-Length")
        total = here + int(length) if length and length.isdecimal() and len(length) < _MOST_DIGITS else None
        with opened_own(part) as file:
            file.truncate(here)
            here = _copied(stream, file.write, here, total, address, progress)
    if total is not None and here < total:
        raise _stopped(address, here, total, "the server has closed the connection")
    if part.stat().st_size != here:
        part.unlink()
        raise UserError("two programs have downloaded it at once", where=part, fix="start one of them again")


def _copied(
    stream: object, write: Callable[[bytes], object], here: int, total: int | None, address: str, progress: Progress
) -> int:
    told = 0.0
    while True:
        try:
            block: bytes = stream.read(_BLOCK)  # type: ignore[attr-defined]
        except (TimeoutError, ConnectionError, HTTPException) as error:
            raise _stopped(address, here, total, str(error) or type(error).__name__) from error
        if not block:
            return here
        write(block)
        here += len(block)
        if here > _MOST:
            raise UserError(f"is larger than {amount(_MOST)}", where=address, fix="this is no weight file")
        if time.monotonic() - told > _TOLD_EVERY:
            told = time.monotonic()
            progress(here, total)


def _stopped(address: str, here: int, total: int | None, why: str) -> UserError:
    of = "" if total is None else f" of {amount(total)}"
    fix = "the same command continues it"
    return UserError(f"the download has stopped after {amount(here)}{of}: {why}", where=address, fix=fix)
