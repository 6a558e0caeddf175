"""Numbers of a diagnosis in iterations, for logs that say no epochs: their pieces mean nothing to anybody else."""

from collections.abc import Mapping
from typing import Any

from yolofast.report.history import Epochs

_PLACES, _LENGTHS = {"epoch", "best", "as_good", "by_loss"}, {"epochs", "period"}
_RENAMED = {"epoch": "iteration", "epochs": "iterations"}


def in_iterations(epochs: Epochs, values: Mapping[str, Any]) -> dict[str, Any]:
    """Unchanged where epochs are known. As in words, a choice and a rise are at the end of a piece."""
    if epochs.starts is None:
        return dict(values)
    place = epochs.last_iteration if "best" in values or "rise" in values else epochs.first_iteration
    converted = dict(values)
    for name in _PLACES & values.keys():
        given = values[name]
        converted[name] = [place(one) for one in given] if isinstance(given, tuple) else place(int(given))
    for name in _LENGTHS & values.keys():
        converted[name] = values[name] * epochs.piece
    return {_RENAMED.get(name, name): value for name, value in converted.items()}
