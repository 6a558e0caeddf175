"""Which causes of a fluctuation a run's files say nothing about: a share of 0 is another matter."""

from yolofast.report.history import BOXES, MIX, SIZE, History

_NEEDS = {"mix": MIX, "image_size": (SIZE,), "boxes": BOXES}
"""A share by the name it has in `Shares`: the contents of batches of which at least one has to be known."""


def not_recorded(history: History) -> list[str]:
    contents = {} if history.batches is None else history.batches.contents
    return [share for share, names in _NEEDS.items() if not any(name in contents for name in names)]
