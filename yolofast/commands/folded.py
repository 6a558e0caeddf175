"""Tables on terminals that are narrower than they: cells are broken into lines, the widest first, and none is cut."""

from rich.table import Table


def folded(listing: Table) -> Table:
    for column in listing.columns:
        column.no_wrap, column.overflow = False, "fold"
    return listing
