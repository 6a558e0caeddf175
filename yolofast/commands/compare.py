"""`yolofast compare`: runs beside one another, as a page, as Markdown or JSON, and in short in the terminal."""

import argparse
import json
from pathlib import Path

from yolofast.atomic_file import write_output
from yolofast.commands.compare_formats import refuse_other_formats
from yolofast.commands.compare_page import page_of
from yolofast.commands.compare_terminal import print_comparison
from yolofast.commands.compare_weights import with_weights
from yolofast.commands.console import console
from yolofast.commands.own_file import mark, refuse_foreign
from yolofast.config.flags import from_args
from yolofast.config.reports import CompareConfig
from yolofast.errors import UserError
from yolofast.own_command import own_command
from yolofast.pages.html import render_page
from yolofast.pages.markdown import render_markdown
from yolofast.report.compare.as_json import MADE_BY, as_json
from yolofast.report.compare.comparison import Asked, compare
from yolofast.report.compare.read_folder import read_runs

_STANDARD_OUTPUT = "-"


def run(args: argparse.Namespace) -> None:
    config = from_args(CompareConfig, args)
    asked = _asked(config)
    refuse_other_formats(config)
    targets = [
        Path(name) for name in (config.output, config.markdown, config.json) if name not in (None, _STANDARD_OUTPUT)
    ]
    for path in targets:
        refuse_foreign(path, MADE_BY)
    found = compare([with_weights(one) for one in read_runs(config.runs, config.names)], asked)
    page = page_of(found)
    _write(Path(config.output), render_page(page) + mark(MADE_BY))
    if config.markdown is not None:
        _write(Path(config.markdown), f"{render_markdown(page)}\n{mark(MADE_BY)}")
    if config.json == _STANDARD_OUTPUT:
        print(json.dumps(as_json(found), indent=2))
        return
    if config.json is not None:
        _write(Path(config.json), json.dumps(as_json(found), indent=2) + "\n")
    print_comparison(console(), found)
    print(f"written: {', '.join(str(path) for path in targets)}")


def _asked(config: CompareConfig) -> Asked:
    if len(config.runs) < 2:
        raise UserError("one run cannot be compared", fix=f"give two folders or more: {own_command()} compare RUN RUN")
    for flag, told in (("--hours", config.hours), ("--pace", config.pace)):
        if told and len(told) != len(config.runs):
            raise UserError(f"{flag} has {len(told)} numbers for {len(config.runs)} runs", fix="give one for each run")
    return Asked(
        price=config.price,
        epochs=tuple(sorted(set(config.epochs))),
        last=config.last,
        groups=config.group,
        hours=config.hours,
        pace=config.pace,
        images=config.images,
    )


def _write(path: Path, text: str) -> None:
    write_output(path, text.encode("utf-8", errors="replace"))
