"""`yolofast report`: the page of a run, made again from its folder."""

import argparse
from pathlib import Path

from yolofast.config.flags import from_args
from yolofast.config.reports import ReportConfig
from yolofast.files.atomic_file import write_output
from yolofast.files.own_file import mark, refuse_foreign
from yolofast.pages.html import render_page
from yolofast.pages.markdown import render_markdown
from yolofast.report.run.run_page import report_page
from yolofast.runs.layout import FILES

_MADE_BY = "yolofast report"


def run(args: argparse.Namespace) -> None:
    config = from_args(ReportConfig, args)
    folder = Path(config.run_folder)
    own = folder / FILES.report
    path = Path(config.output) if config.output else own
    last = mark(_MADE_BY) if path.absolute() != own.absolute() else ""  # training writes the run's own without it
    for target in (path if last else None, config.markdown):
        if target:
            refuse_foreign(Path(target), _MADE_BY)
    page = report_page(folder)
    write_output(path, (render_page(page) + last).encode())
    print(f"report: {path}")
    if config.markdown:
        write_output(config.markdown, f"{render_markdown(page)}\n{mark(_MADE_BY)}".encode())
        print(f"Markdown: {config.markdown}")
