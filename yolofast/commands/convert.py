"""`yolofast convert`: sequences from one format into another. Images stay where they are."""

import argparse
from dataclasses import replace
from pathlib import Path

from yolofast.config.flags import from_args
from yolofast.config.sequences import ConvertConfig
from yolofast.dataset.faults import Fault
from yolofast.errors import UserError
from yolofast.track.formats.faults import told
from yolofast.track.formats.sequence import Sequence
from yolofast.track.formats.table import FORMATS, format_of
from yolofast.words import counted


def run(args: argparse.Namespace) -> None:
    config = from_args(ConvertConfig, args)
    source, out = Path(config.source), Path(config.out)
    target = FORMATS[config.to]
    _refuse(source, out, target.ending, config.to)
    own = format_of(source) if config.source_format == "auto" else config.source_format
    faults: list[Fault] = []
    sequences = FORMATS[own].read(source, config.kind, faults, config.skip_bad)
    if config.names:
        sequences = named(sequences, config.names)
    target.write(out, sequences, config.kind)
    for line in told(faults):
        print(f"remark: {line}")
    boxes = sum(len(one) for one in sequences.values())
    frames = sum(one.length for one in sequences.values())
    what = f"{counted(len(sequences), 'sequence')}, {counted(frames, 'frame')}, {boxes:,} boxes"
    print(f"{out}: {target.title}, {config.kind}: {what}")


def _refuse(source: Path, out: Path, ending: str, to: str) -> None:
    if ending and out.suffix.lower() != ending:
        raise UserError(f"--out is {out}", fix=f"{to} is one file: name one that ends in {ending}")
    if ending and out.exists():
        raise UserError("exists", where=out, fix="name another file, or remove it")
    if not ending and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError("exists and is not an empty folder", where=out, fix="name another folder, or empty it")
    if out.absolute() == source.absolute():
        raise UserError("--out is the source", where=out, fix="name another place")


def named(sequences: dict[str, Sequence], names: tuple[str, ...]) -> dict[str, Sequence]:
    """Names of the classes that occur, in the order of their numbers."""
    labels = sorted({label for one in sequences.values() for label in one.label.tolist() if label >= 0})
    if len(labels) != len(names):
        what = f"--names has {counted(len(names), 'name')}, but there are {len(labels)} classes"
        raise UserError(what, fix=f"name the classes {' '.join(map(str, labels))}, in this order")
    classes = dict(zip(labels, names, strict=True))
    return {name: replace(one, classes=classes) for name, one in sequences.items()}
