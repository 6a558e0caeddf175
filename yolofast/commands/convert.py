"""`yolofast convert`: labelled images, sequences or nuScenes from one form into another."""

import argparse
from dataclasses import replace
from pathlib import Path

from yolofast.commands.convert_images import convert_images
from yolofast.config.flags import from_args
from yolofast.config.sequences import ConvertConfig
from yolofast.dataset.faults import Fault
from yolofast.errors import UserError
from yolofast.extensions import FORMATS, found
from yolofast.track.formats.class_names import classes_named
from yolofast.track.formats.faults import told
from yolofast.track.formats.table import Format, format_of
from yolofast.words import counted


def run(args: argparse.Namespace) -> None:
    config = from_args(ConvertConfig, args)
    holds = _holds(config)
    config.refuse_others(holds)
    if holds == "images":
        convert_images(config)
    elif holds == "sequences":
        _convert_sequences(config)
    else:
        found(FORMATS[config.source_format].code)(config)


def _holds(config: ConvertConfig) -> str:
    """What the source is by its form, else by the form asked for; sequences are asked for by theirs."""
    if config.source_format != "auto":
        return FORMATS[config.source_format].holds
    return "images" if config.to is None else FORMATS[config.to].holds


def _convert_sequences(config: ConvertConfig) -> None:
    if config.source is None or config.to is None:
        raise UserError("convert needs --to FORMAT", fix="give mot, coco-video or tao")
    source, out = Path(config.source), Path(config.out)
    target = _format(config.to)
    _refuse(source, out, target.ending, config.to)
    own = format_of(source) if config.source_format == "auto" else config.source_format
    faults: list[Fault] = []
    sequences = _format(own).read(source, config.kind, faults, config.skip_bad)
    labels = sorted({label for one in sequences.values() for label in one.label.tolist() if label >= 0})
    if config.names:
        classes = classes_named(config.names, labels)
        sequences = {name: replace(one, classes=classes) for name, one in sequences.items()}
    target.write(out, sequences, config.kind)
    for line in told(faults):
        print(f"remark: {line}")
    boxes = sum(len(one) for one in sequences.values())
    frames = sum(one.length for one in sequences.values())
    what = f"{counted(len(sequences), 'sequence')}, {counted(frames, 'frame')}, {boxes:,} boxes"
    if config.names:
        print(f"classes: {', '.join(f'{label} {classes[label]}' for label in labels) or 'none occur'}")
    print(f"{out}: {FORMATS[config.to].title}, {config.kind}: {what}")


def _format(name: str) -> Format:
    form: Format = found(FORMATS[name].code)
    return form


def _refuse(source: Path, out: Path, ending: str, to: str) -> None:
    if ending and out.suffix.lower() != ending:
        raise UserError(f"--out is {out}", fix=f"{to} is one file: name one that ends in {ending}")
    if ending and out.exists():
        raise UserError("exists", where=out, fix="name another file, or remove it")
    if not ending and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError("exists and is not an empty folder", where=out, fix="name another folder, or empty it")
    if out.absolute() == source.absolute():
        raise UserError("--out is the source", where=out, fix="name another place")
