"""Amounts of memory as messages show them."""


def amount(count: float) -> str:
    """Bytes in the unit that suits them; powers of ten, as disks are sold."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1e3:.1f} kB"
