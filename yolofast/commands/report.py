"""`yolofast report`: the page of a run made again from its folder."""

import argparse
from pathlib import Path

from yolofast.atomic_file import write_whole
from yolofast.engine.run_report import REPORT_FILE, report_page
from yolofast.errors import UserError
from yolofast.pages.html import render_page
from yolofast.pages.markdown import render_markdown


def run(args: argparse.Namespace) -> None:
    folder = Path(args.run_folder)
    page = report_page(folder)
    path = Path(args.output) if args.output else folder / REPORT_FILE
    _write(path, render_page(page))
    print(f"report: {path}")
    if args.markdown:
        _write(Path(args.markdown), render_markdown(page))
        print(f"Markdown: {args.markdown}")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", where=path, fix="name another place") from None
