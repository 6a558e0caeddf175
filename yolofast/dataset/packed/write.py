"""A data set as one uncompressed tar file for each split and a data yaml, in a folder or at a URL.

Images are taken as they are, and labels are YOLO's text. Items come as a stream: neither all images nor all names are
held. In a folder each file appears whole; at a URL, which fsspec writes to, the data yaml comes last.
"""

import io
import tarfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from yolofast.errors import UserError, in_one_line
from yolofast.files.atomic_file import name_beside, opened_new, write_whole
from yolofast.files.budget import TAR
from yolofast.files.yaml_file import dump_yaml
from yolofast.resources import IN_FOLDER

_BLOCK = 2**16


@dataclass(frozen=True)
class Item:
    """An image with its labels."""

    split: str
    name: str
    """Without a folder's name before it, with its suffix."""
    image: bytes
    rows: str
    """`class cx cy w h`, a line for each box."""


def is_url(place: str) -> bool:
    return "://" in place


def write_tars(
    items: Iterable[Item], names: Sequence[str], place: str, val_share: float, count: Callable[[int], None]
) -> dict[str, int]:
    """How many images each split has. Without a val split `val_share` of the others, by their names, become one."""
    found: dict[str, int] = {}
    with ExitStack() as files:
        writers: dict[str, _TarWriter] = {}
        for item in items:
            split = item.split
            if split == "train" and val_share and zlib.crc32(item.name.encode()) % 10_000 < 10_000 * val_share:
                split = "val"
            if split not in writers:
                writers[split] = files.enter_context(_TarWriter(place, split))
            writers[split].add(item)
            found[split] = found.get(split, 0) + 1
            count(sum(found.values()))
        if "train" not in found or "val" not in found:
            missing = "train" if "train" not in found else "val"
            what = f"it has no image for the {missing} split, of {sum(found.values()):,}"
            raise UserError(what, where=place, fix="--val 0.1 makes a tenth of the train images one")
        for writer in writers.values():
            writer.finish()
    splits: dict[str, str] = {split: f"{split}{TAR}" for split in ("train", "val", "test") if split in found}
    text = dump_yaml({"path": ".", **splits, "nc": len(names), "names": list(names)})
    with _written(place, IN_FOLDER) as file:
        file.write(text.encode())
    return found


class _TarWriter:
    """Of one split. What is not finished leaves nothing in a folder."""

    def __init__(self, place: str, split: str) -> None:
        self._place, self._name = place, f"{split}{TAR}"

    def __enter__(self) -> "_TarWriter":
        if is_url(self._place):
            self._target: Path | None = None
            self._file = _written(self._place, self._name)
        else:
            self._target = Path(self._place) / self._name
            self._beside = name_beside(self._target)
            self._file = opened_new(self._beside)
        self._tar = tarfile.open(fileobj=self._file, mode="w|", format=tarfile.PAX_FORMAT, bufsize=_BLOCK)
        return self

    def add(self, item: Item) -> None:
        stem = item.name.rpartition(".")[0]
        for name, content in ((f"images/{item.name}", item.image), (f"labels/{stem}.txt", item.rows.encode())):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o644
            self._tar.addfile(info, io.BytesIO(content))
        self._tar.members = []  # type: ignore[attr-defined]  # or it would keep an object for each

    def finish(self) -> None:
        self._tar.close()
        self._file.close()
        if self._target is not None:
            self._beside.replace(self._target)

    def __exit__(self, *_: object) -> None:
        if not self._file.closed:  # it was not finished
            with suppress(OSError, ValueError):
                self._tar.close()
            discard = getattr(self._file, "discard", None)  # of a store where closing would keep what there is
            (discard or self._file.close)()
        if self._target is not None:
            self._beside.unlink(missing_ok=True)


def _written(place: str, name: str) -> BinaryIO:
    if not is_url(place):
        return cast(BinaryIO, _Whole(Path(place) / name))
    return cast(BinaryIO, open_url(f"{place.rstrip('/')}/{name}", "wb"))


class _Whole(io.BytesIO):
    """A small file that appears when it is closed."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            write_whole(self._path, self.getvalue())
        self.close()


def open_url(url: str, mode: str) -> Any:
    """By fsspec, which comes with torch; what it needs for s3, gs and hf is its own to say."""
    import fsspec

    try:
        return fsspec.open(url, mode).open()
    except ImportError as error:
        raise UserError(f"cannot be opened: {error}", where=url, fix="install what it names") from None
    except Exception as error:  # noqa: BLE001 - each kind of store has its own
        raise UserError(
            f"cannot be opened: {in_one_line(error)}", where=url, fix="check the address and rights"
        ) from None
