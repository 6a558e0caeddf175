"""What `--data` means: a data yaml, or the name of the built-in data set, which is made on first use."""

from collections.abc import Callable
from pathlib import Path
from typing import Unpack

from yolofast.dataset.faults import FaultKind
from yolofast.dataset.shapes.made_once import is_made, shapes_data_yaml, shapes_folder
from yolofast.dataset.split import Reads, read_split_report
from yolofast.image_index import ImageIndex
from yolofast.resources import data_yaml


def data_file(data: str | Path, say: Callable[[str], None] | None = None) -> Path:
    """The data yaml to read; `say` is called when the built-in data set has to be made."""

    def made() -> Path:
        if say is not None and not is_made(shapes_folder()):
            say("data: the built-in shapes are made, once")
        return shapes_data_yaml()

    return data_yaml(data, made)


def read_named_split(path: Path, split: str, say: Callable[[str], None], **how: Unpack[Reads]) -> ImageIndex:
    """The images of a split, with a warning if none of them has a label."""
    report = read_split_report(path, split, **how)
    for fault in report.faults:
        if fault.kind is FaultKind.EMPTY_SPLIT:
            say(f"warning: {fault}; all of them count as background, and nothing can be found\n  fix: {fault.fix}")
    return report.index
