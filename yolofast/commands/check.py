"""`yolofast check`: what is in a data set, and everything that is wrong with it."""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from yolofast.commands.convert_images import print_conversion
from yolofast.config.flags import from_args
from yolofast.config.tools import CheckConfig
from yolofast.dataset.check import CheckedSplit, check_data
from yolofast.dataset.data_argument import data_file
from yolofast.dataset.data_yaml import command_to_divide, read_data_yaml
from yolofast.dataset.faults import Fault, FaultKind
from yolofast.dataset.formats.write import DATA_YAML
from yolofast.dataset.overview_picture import draw_overview
from yolofast.dataset.repair import Repair, command_for, copy_of, repair_command
from yolofast.errors import UserError
from yolofast.terminal.console import console, decoding_progress, table
from yolofast.terminal.escaping import SafeConsole
from yolofast.words import counted

EXIT_CLEAN, EXIT_WRONG = 0, 1
# An image without a label file may be a mistake, but it is also how background is written.
_BACKGROUND = FaultKind.NO_LABEL
_SHOWN_PER_KIND = 20


def run(args: argparse.Namespace) -> int:
    config = from_args(CheckConfig, args)
    if config.fix is not None and (config.single_cls or config.splits is not None):
        raise UserError("--fix repairs the whole data set", fix="omit --splits and --single-cls")
    remarks: list[str] = []
    path = data_file(config.data, remarks.append)
    splits = _checked(path, config)
    if config.splits is None and read_data_yaml(path).lacks_val():
        divide = command_to_divide(path)
        remarks.append(f"data: there is no split 'val', which training measures on; divide the images: {divide}")
    picture = None
    if config.plot is not None:
        index = next((split.index for split in splits if split.index is not None and len(split.index)), None)
        if index is None:
            raise UserError("no split can be drawn: none of them could be read", fix="omit --plot to see why")
        picture = str(draw_overview(index, config.plot))
    wrong = _is_wrong(splits)
    faults = [(split.name, fault) for split in splits for fault in split.faults]
    repair = repair_command(config.data)
    if config.json:
        content = {
            "data": str(config.data),
            "ok": not wrong,
            "splits": {split.name: _numbers(split) for split in splits},
            "remarks": remarks,
            "faults": [{"split": name, **vars(fault), "command": command_for(fault, repair)} for name, fault in faults],
            "picture": picture,
        }
        print(json.dumps(content, indent=2))
    else:
        _print(config.data, splits, picture, remarks, repair)
    if config.fix is not None and faults:
        wrong = _fix(path, config)
    elif config.fix is not None:
        print("nothing is wrong, so no copy is written", file=sys.stderr if config.json else sys.stdout)
    return EXIT_WRONG if wrong else EXIT_CLEAN


def _checked(path: Path, config: CheckConfig) -> list[CheckedSplit]:
    with decoding_progress("decoding") as done:
        return check_data(path, config.splits, single_cls=config.single_cls, done=done)


def _is_wrong(splits: list[CheckedSplit]) -> bool:
    return any(fault.kind is not _BACKGROUND for split in splits for fault in split.faults)


def _fix(path: Path, config: CheckConfig) -> bool:
    """Writes the copy and checks it; whether something is still wrong."""
    out = SafeConsole(stderr=True, highlight=False, markup=False, emoji=False) if config.json else console()
    repair = Repair(path, lambda line: None)
    folder = repair.make(config.fix or copy_of(config.data))
    out.print(f"\nrepaired copy: {folder / DATA_YAML}", soft_wrap=True)
    print_conversion(repair, out)
    splits = check_data(folder / DATA_YAML)
    _print_verdict(out, str(folder / DATA_YAML), [fault for split in splits for fault in split.faults])
    return _is_wrong(splits)


def _numbers(split: CheckedSplit) -> dict[str, Any]:
    fatal = sum(fault.fatal for fault in split.faults)
    counts: dict[str, Any] = {"faults": fatal, "warnings": len(split.faults) - fatal}
    if split.index is None:
        return {"images": 0, "boxes": 0, "background": 0, "crowd": 0, **counts, "classes": {}}
    index = split.index
    per_class = np.bincount(index.labels, minlength=len(index.names)).tolist()
    return {
        "images": len(index),
        "boxes": len(index.labels),
        "background": int((np.diff(index.starts) == 0).sum()),
        "crowd": int(index.crowd.sum()),
        **counts,
        "classes": {f"{i} {name}": count for i, (name, count) in enumerate(zip(index.names, per_class, strict=True))},
    }


def _print(data: str, splits: list[CheckedSplit], picture: str | None, remarks: list[str], repair: str) -> None:
    out = console()
    for remark in remarks:
        if not remark.startswith("warning"):  # it is among the warnings below
            out.print(remark, soft_wrap=True)
    numbers = [_numbers(split) for split in splits]
    listing = table("split", ">images", ">boxes", ">background", ">classes", ">faults", ">warnings")
    for split, number in zip(splits, numbers, strict=True):
        present = sum(count > 0 for count in number["classes"].values())
        columns = [number[name] for name in ("images", "boxes", "background")]
        columns += [f"{present} of {len(number['classes'])}", number["faults"], number["warnings"]]
        listing.add_row(split.name, *(f"{value:,}" if isinstance(value, int) else value for value in columns))
    out.print(listing, "")
    names = dict.fromkeys(name for number in numbers for name in number["classes"])
    listing = table("class", *(f">{split.name}" for split in splits))
    for name in names:
        listing.add_row(name, *(f"{number['classes'].get(name, 0):,}" for number in numbers))
    if names:
        out.print(listing, "")
    faults = [fault for split in splits for fault in split.faults]
    for fatal, word in ((True, "fault"), (False, "warning")):
        chosen = [fault for fault in faults if fault.fatal is fatal]
        for kind, count in Counter(fault.kind for fault in chosen).items():
            _print_kind(out, f"{word}: {kind} ({count:,})", [fault for fault in chosen if fault.kind == kind], repair)
    if picture is not None:
        out.print(f"overview: {picture}", soft_wrap=True)
    _print_verdict(out, data, faults)


def _print_kind(out: Console, title: str, faults: list[Fault], repair: str) -> None:
    """Paths are not wrapped, so that they can be copied."""
    out.print(title)
    shown = faults[:_SHOWN_PER_KIND]
    fixes = {fault.fix for fault in shown}
    for fault in shown:
        out.print(f"  {fault}", soft_wrap=True)
        if len(fixes) > 1:
            out.print(f"    fix: {fault.fix}", soft_wrap=True)
    if len(fixes) == 1:
        out.print(f"  fix: {fixes.pop()}", soft_wrap=True)
    for command in dict.fromkeys(command for fault in shown if (command := command_for(fault, repair)) is not None):
        out.print(f"  command: {command}", soft_wrap=True)
    if len(faults) > len(shown):
        out.print(f"  … and {len(faults) - len(shown):,} more; --json lists all")
    out.print()


def _print_verdict(out: Console, data: str, faults: list[Fault]) -> None:
    fatal = [fault for fault in faults if fault.fatal]
    counts = f"{_count(len(fatal), 'fault')}, {_count(len(faults) - len(fatal), 'warning')}"
    out.print(f"{data}: {counts}", soft_wrap=True)
    whole = sum(fault.kind is FaultKind.EMPTY_SPLIT for fault in fatal)
    leaks = sum(fault.kind is FaultKind.LEAKAGE for fault in fatal)
    if skippable := len(fatal) - whole - leaks:
        out.print(f"{_count(skippable, 'fault')}: training stops, or with --skip-bad omits what is named")
    if whole:
        out.print(f"{_count(whole, 'fault')} of a whole split: training stops, with --skip-bad too")
    if leaks:
        out.print(f"{_count(leaks, 'image')} in two splits: training does not check that, so correct it before")


def _count(number: int, thing: str) -> str:
    return counted(number, thing) if number else f"no {thing}s"
