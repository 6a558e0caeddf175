"""`yolofast convert` of labelled images: what was read, what was left out and why, what there is, and what is next."""

import shlex
from collections import Counter
from pathlib import Path

from rich.console import Console

from yolofast.config.sequences import ConvertConfig
from yolofast.dataset.faults import Fault
from yolofast.dataset.formats.convert import REPORT, Conversion, ConvertRequest
from yolofast.dataset.formats.fit import Choice, known_marks
from yolofast.dataset.formats.write import DATA_YAML
from yolofast.errors import UserError, shorten
from yolofast.extensions import FORMATS
from yolofast.files.yaml_file import read_yaml
from yolofast.terminal.console import console, table
from yolofast.words import counted, own_command

_SHOWN = 3
_CLASSES_SHOWN = 30


def convert_images(config: ConvertConfig) -> None:
    assert config.source is not None  # the settings see to it
    request = ConvertRequest(
        source=Path(config.source),
        form=config.source_format,
        to=config.to or "yolo",
        images=None if config.images is None else Path(config.images),
        choice=Choice(_renamed(config.map), config.names, known_marks(config.drop)),
        splits=config.split,
        group=config.group,
        seed=config.seed,
        copy=config.copy,
        skip_bad=config.skip_bad,
    )
    out = console()
    conversion = Conversion(request, lambda line: out.print(line, soft_wrap=True))
    folder = conversion.make(config.out)
    print_conversion(conversion, out)
    yaml = shlex.quote(str(Path(config.out) / DATA_YAML))
    images = sum(one.images for one in conversion.splits.values())
    what = f"{FORMATS[request.to].title}, {counted(images, 'image')}, {counted(len(conversion.names), 'class')}"
    out.print(f"{folder / DATA_YAML}: {what}", soft_wrap=True)
    out.print(f"next: {own_command()} check --data {yaml}", soft_wrap=True)


def _renamed(words: tuple[str, ...]) -> dict[str, str]:
    """`car=vehicle`, `dog=` to leave it out, or a YAML file of such pairs."""
    renamed: dict[str, str] = {}
    for word in words:
        old, found, new = word.partition("=")
        if found and old:
            renamed[old] = new
        elif not found and word.lower().endswith((".yaml", ".yml")):
            renamed |= _from_file(Path(word))
        else:
            raise UserError(f"--map is {shorten(word)}", fix="give OLD=NEW, OLD= to leave it out, or a YAML file")
    return renamed


def _from_file(path: Path) -> dict[str, str]:
    file = read_yaml(path)
    for old, new in file.values.items():
        if not isinstance(old, str | int) or not isinstance(new, str | int | None):
            what, fix = (
                f"{shorten(old)}: {shorten(new)} are not two names",
                "write `car: vehicle`, or `dog:` to omit it",
            )
            raise UserError(what, where=path, line=file.line_of_key(str(old)), fix=fix)
    return {str(old): "" if new is None else str(new) for old, new in file.values.items()}


def print_conversion(conversion: Conversion, out: Console) -> None:
    found = conversion.found
    for remark in found.remarks:
        out.print(f"remark: {remark}", soft_wrap=True)
    _print_faults(found.faults, out)
    for what, counter in (("left out", found.dropped), ("changed", found.changed)):
        for reason, count in counter.most_common():
            out.print(f"{what}: {reason} ({count:,})", soft_wrap=True)
    listing = table("split", ">images", ">boxes", ">outlines", ">background")
    for name, one in conversion.splits.items():
        listing.add_row(name, *(f"{count:,}" for count in (one.images, one.boxes, one.outlines, one.background)))
    out.print(listing)
    listing = table("class", *(f">{name}" for name in conversion.splits))
    for number, name in enumerate(conversion.names[:_CLASSES_SHOWN]):
        counts = (f"{one.classes.get(name, 0):,}" for one in conversion.splits.values())
        listing.add_row(f"{number} {name}", *counts)
    out.print(listing)
    if len(conversion.names) > _CLASSES_SHOWN:
        out.print(f"… and {len(conversion.names) - _CLASSES_SHOWN:,} more classes; {REPORT} has all")


def _print_faults(faults: list[Fault], out: Console) -> None:
    kinds = Counter((fault.kind, fault.fatal) for fault in faults)
    for (kind, fatal), count in kinds.items():
        own = [fault for fault in faults if (fault.kind, fault.fatal) == (kind, fatal)]
        word = "left out" if fatal else "warning"
        out.print(f"{word}: {kind} ({count:,})")
        for fault in own[:_SHOWN]:
            out.print(f"  {fault}", soft_wrap=True)
        if count > _SHOWN:
            out.print(f"  … and {count - _SHOWN:,} more; {REPORT} lists all")
