"""What a run says of itself at its end, `summary.json`, as long as it is true.

A run that came to its end, was resumed for more epochs and then killed has that of its earlier end.
"""

from collections.abc import Mapping
from typing import Any


def summary_of(values: Mapping[str, Any], epochs: int) -> Mapping[str, Any]:
    """Empty if it is of another number of epochs than there are results of."""
    return values if values.get("epochs", epochs) == epochs else {}
