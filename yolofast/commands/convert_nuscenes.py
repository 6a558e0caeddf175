"""`yolofast convert --from nuscenes`: its tables become 2-D boxes with identities, in the forms that commands take."""

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from yolofast.config.sequences import ConvertConfig
from yolofast.terminal.console import console, table
from yolofast.track.nuscenes.boxes import Filters
from yolofast.track.nuscenes.export import DATA_YAML, NuscenesExport
from yolofast.track.nuscenes.read_tables import Tell
from yolofast.track.nuscenes.tables import Wanted
from yolofast.words import duration, own_command

_SAY_EVERY = 10.0
"""Seconds, where output is not a terminal."""
_LISTED = 20


def convert_nuscenes(config: ConvertConfig) -> None:
    assert config.root is not None  # the settings see to it
    wanted = Wanted(
        root=Path(config.root),
        version=config.version,
        cameras=config.cameras,
        classes=config.classes,
        splits=config.split,
        split_file=None if config.split_file is None else Path(config.split_file),
        sweeps=config.frames == "sweeps",
    )
    filters = Filters(
        min_visibility=config.min_visibility, max_occlusion=config.max_occlusion, min_size=config.min_size
    )
    began = time.monotonic()
    with _progress() as tell:
        export = NuscenesExport(wanted, filters, tell, skip_bad=config.skip_bad)
        folder = export.make(config.out)
    for fault in export.faults[:_LISTED]:
        print(f"omitted: {fault}")
    if len(export.faults) > _LISTED:
        print(f"omitted: … and {len(export.faults) - _LISTED:,} more")
    for remark in export.remarks:
        print(f"remark: {remark}")
    _print_splits(export)
    print(f"{folder / DATA_YAML}: 2-D boxes of nuScenes {config.version}, in {duration(time.monotonic() - began)}")
    print("scores on them are 2-D scores, not nuScenes scores: those are 3-D")
    print(f"next: {own_command()} check --data {shlex.quote(str(folder / DATA_YAML))}")


def _print_splits(export: NuscenesExport) -> None:
    out = console()
    listing = table("split", ">scenes", ">sequences", ">images", ">boxes", ">tracks")
    for split, one in export.splits.items():
        counts = (one.scenes, one.sequences, one.images, one.boxes, one.tracks)
        listing.add_row(split, *(f"{count:,}" for count in counts))
    out.print(listing)
    for split, one in export.splits.items():
        classes = ", ".join(f"{name} {count:,}" for name, count in one.classes.most_common())
        out.print(f"boxes of {split}: {classes or 'none'}", soft_wrap=True)


@contextmanager
def _progress() -> Iterator[Tell]:
    """A bar on a terminal, elsewhere a line now and then."""
    if not sys.stdout.isatty():
        said = time.monotonic()

        def say(what: str, done: int, total: int) -> None:
            nonlocal said
            if time.monotonic() - said >= _SAY_EVERY:
                said = time.monotonic()
                print(f"{what}: {done / max(total, 1):.0%}", flush=True)

        yield say
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console(), transient=True) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)
