"""`yolofast import`, and `pack --to`: data sets as a few files, which are read where they lie."""

import argparse
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from yolofast.config.flags import from_args
from yolofast.config.tools import ImportConfig
from yolofast.dataset.packed.sources import open_source
from yolofast.dataset.packed.write import Item, is_url, write_tars
from yolofast.dataset.split import read_split
from yolofast.errors import UserError
from yolofast.files.budget import open_regular
from yolofast.image_index import ImageIndex
from yolofast.resources import IN_FOLDER
from yolofast.terminal.console import decoding_progress
from yolofast.words import counted, own_command


def run(args: argparse.Namespace) -> None:
    config = from_args(ImportConfig, args)
    place = config.out or Path(config.source.rstrip("/")).name.rpartition(".")[0] or "imported"
    _refuse_what_is_there(place)
    source = open_source(config.source, config.names)
    _write(source.items, source.names, place, config.val)


def publish(data: Path, splits: tuple[str, ...], skip_bad: bool, place: str) -> None:
    """A data set of ours, as tar files at another place."""
    _refuse_what_is_there(place)
    indexes = {split: read_split(data, split, skip_bad=skip_bad) for split in splits}
    names = next(iter(indexes.values())).names
    _write((item for split, index in indexes.items() for item in _items(index, split)), names, place, 0.0)


def _write(items: Iterable[Item], names: tuple[str, ...], place: str, val: float) -> None:
    is_new = not is_url(place) and not Path(place).exists()
    if is_new:
        Path(place).mkdir(parents=True)
    try:
        with decoding_progress("writing") as show:
            found = write_tars(items, names, place, val, lambda done: show(1, None))
    except BaseException:
        if is_new:
            with suppress(OSError):  # another program has put something in
                Path(place).rmdir()
        raise
    said = ", ".join(f"{split} {count:,}" for split, count in found.items())
    print(f"{place}: {counted(sum(found.values()), 'image')} ({said}), {len(names)} classes")
    if not is_url(place):
        print(f"next: {own_command()} check --data {shlex.quote(str(Path(place) / IN_FOLDER))}")


def _refuse_what_is_there(place: str) -> None:
    if not is_url(place) and (Path(place) / IN_FOLDER).exists():
        raise UserError("there is a data set already", where=place, fix="name another folder with --out")


def _items(index: ImageIndex, split: str) -> Iterator[Item]:
    width = len(str(len(index)))
    for place in range(len(index)):
        path, boxes = index.path(place), index.boxes_of(place)
        try:
            with open_regular(path) as file:
                image = file.read()
        except OSError as error:
            raise UserError(f"cannot be read: {error.strerror}", where=path, fix="restore it, or --skip-bad") from None
        pairs = zip(index.labels[boxes].tolist(), index.boxes[boxes].tolist(), strict=True)
        rows = "".join(f"{label} {' '.join(f'{one:.7g}' for one in box)}\n" for label, box in pairs)
        yield Item(split, f"{place:0{width}}-{path.name}", image, rows)
