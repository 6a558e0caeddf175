"""Where commands print: tables for people on standard output."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from yolofast.terminal.escaping import SafeConsole

# Rich falls back on 80 columns when output is not a terminal, which would cut tables in logs and pipes.
_WIDTH_WITHOUT_TERMINAL = 1000


def console() -> Console:
    """Names come from users' files, so nothing in them is read as markup."""
    return SafeConsole(
        width=None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL, highlight=False, markup=False, emoji=False
    )


@contextmanager
def progress_bar(
    title: str, amount: ProgressColumn, *, stays: bool = False
) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on a terminal, nothing in a log: hears how many are done, and of how many. `stays` at its end."""
    if not sys.stdout.isatty():
        yield lambda done, total: None
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(), amount, TimeRemainingColumn()
    with Progress(*columns, console=console(), transient=not stays) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def decoding_progress(title: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on a terminal: hears how many more are done, and how many there are, if that is known.

    On a descriptor of its own, because the usual one is silenced while images are decoded.
    """
    shown = sys.stderr.isatty()
    screen = Console(file=os.fdopen(os.dup(sys.stderr.fileno()), "w")) if shown else Console(stderr=True)
    with Progress(console=screen, transient=True, disable=not shown) as progress:
        task = progress.add_task(title, total=None)
        yield lambda more, total: progress.update(task, advance=more, total=total)


def table(*columns: str) -> Table:
    """A table whose columns are left-aligned text, or right-aligned if the heading starts with '>'."""
    result = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        number = column.startswith(">")
        result.add_column(column.lstrip(">"), justify="right" if number else "left", no_wrap=True)
    return result


def folded(listing: Table) -> Table:
    """For terminals that are narrower: cells are broken into lines, the widest first, and none is cut."""
    for column in listing.columns:
        column.no_wrap, column.overflow = False, "fold"
    return listing
