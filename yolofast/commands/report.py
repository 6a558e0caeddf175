"""`yolofast report`: the page of a run made again from its folder."""

import argparse
from pathlib import Path

from yolofast.atomic_file import write_whole
from yolofast.commands.own_file import mark, refuse_foreign
from yolofast.engine.run_report import report_page
from yolofast.errors import UserError
from yolofast.pages.html import render_page
from yolofast.pages.markdown import render_markdown
from yolofast.runs.layout import FILES

_MADE_BY = "yolofast report"


def run(args: argparse.Namespace) -> None:
    folder = Path(args.run_folder)
    own = folder / FILES.report
    path = Path(args.output) if args.output else own
    last = mark(_MADE_BY) if path.absolute() != own.absolute() else ""  # training writes the run's own without it
    for target in (path if last else None, args.markdown):
        if target:
            refuse_foreign(Path(target), _MADE_BY)
    page = report_page(folder)
    _write(path, render_page(page) + last)
    print(f"report: {path}")
    if args.markdown:
        _write(Path(args.markdown), f"{render_markdown(page)}\n{mark(_MADE_BY)}")
        print(f"Markdown: {args.markdown}")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", where=path, fix="name another place") from None
