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
from yolofast.errors import UserError
from yolofast.own_command import own_command
from yolofast.pages.html import render_page
from yolofast.pages.markdown import render_markdown
from yolofast.report.compare.as_json import MADE_BY, as_json
from yolofast.report.compare.comparison import Asked, compare
from yolofast.report.compare.read_folder import read_runs

_STANDARD_OUTPUT = "-"


def run(args: argparse.Namespace) -> None:
    asked = _asked(args)
    refuse_other_formats(args)
    targets = [Path(name) for name in (args.output, args.markdown, args.json) if name not in (None, _STANDARD_OUTPUT)]
    for path in targets:
        refuse_foreign(path, MADE_BY)
    found = compare([with_weights(one) for one in read_runs(args.runs, args.names or ())], asked)
    page = page_of(found)
    _write(Path(args.output), render_page(page) + mark(MADE_BY))
    if args.markdown is not None:
        _write(Path(args.markdown), f"{render_markdown(page)}\n{mark(MADE_BY)}")
    if args.json == _STANDARD_OUTPUT:
        print(json.dumps(as_json(found), indent=2))
        return
    if args.json is not None:
        _write(Path(args.json), json.dumps(as_json(found), indent=2) + "\n")
    print_comparison(console(), found)
    print(f"written: {', '.join(str(path) for path in targets)}")


def _asked(args: argparse.Namespace) -> Asked:
    if len(args.runs) < 2:
        raise UserError("one run cannot be compared", fix=f"give two folders or more: {own_command()} compare RUN RUN")
    for flag, told in (("--hours", args.hours), ("--pace", args.pace)):
        if told and len(told) != len(args.runs):
            raise UserError(f"{flag} has {len(told)} numbers for {len(args.runs)} runs", fix="give one for each run")
    return Asked(
        price=args.price,
        epochs=tuple(args.epochs or ()),
        last=args.last,
        groups=tuple(args.group or ()),
        hours=tuple(args.hours or ()),
        pace=tuple(args.pace or ()),
        images=args.images,
    )


def _write(path: Path, text: str) -> None:
    write_output(path, text.encode("utf-8", errors="replace"))
