"""Where commands print: tables for people on standard output."""

import sys

from rich.console import Console
from rich.table import Table

# Rich falls back on 80 columns when output is not a terminal, which would cut tables in logs and pipes.
_WIDTH_WITHOUT_TERMINAL = 1000


def console() -> Console:
    """Names come from users' files, so nothing in them is read as markup."""
    return Console(
        width=None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL, highlight=False, markup=False, emoji=False
    )


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
