"""Numbers as people read them: about four digits that say something. `chart.js` has the same rule."""

import math

UNKNOWN = "–"


def shown(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return UNKNOWN
    size = abs(value)
    if value == 0:
        return "0"
    if size < 0.001 or size >= 1e12:
        digits, power = f"{value:.2e}".split("e")
        return f"{digits}e{int(power):+d}"
    if value == int(value) or size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{1 if size >= 100 else 2 if size >= 10 else 3 if size >= 1 else 4}f}"


def known(value: float | None) -> float | None:
    """None for what is not a finite number, which JSON has no word for."""
    return value if value is not None and math.isfinite(value) else None
