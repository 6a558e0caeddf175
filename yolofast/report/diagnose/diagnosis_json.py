"""A diagnosis as plain values; what is unknown is null."""

from dataclasses import asdict
from typing import Any

from yolofast.files.known_numbers import without_nan
from yolofast.report.diagnose.diagnosis import Diagnosis
from yolofast.report.diagnose.dialect import flags
from yolofast.report.diagnose.fluctuation import Fluctuation
from yolofast.report.logs.history import BOXES, MIX, SIZE, History
from yolofast.runs.tracking import as_values

_NEEDS = {"mix": MIX, "image_size": (SIZE,), "boxes": BOXES}
"""A share by the name it has in `Shares`: the contents of batches of which at least one has to be known."""


def not_recorded(history: History) -> list[str]:
    contents = {} if history.batches is None else history.batches.contents
    return [share for share, names in _NEEDS.items() if not any(name in contents for name in names)]


def as_json(found: Diagnosis) -> dict[str, Any]:
    """Epochs count from 1; where no file says them, a remark says which parts take their place."""
    history = found.history
    values = {
        "source": history.source,
        "format": history.format,
        "epochs": len(history.epochs) if history.epochs.unit == "epoch" else None,
        "remarks": list(found.remarks),
        "losses_are_of": found.unit,
        "losses": len(history.finest[0]),
        "phases": [
            {
                "first": r.phase.first,
                "last": r.phase.last,
                "starts_with": r.phase.starts_with,
                **asdict(r.curve),
                "gradient_norm": r.gradient_norm,
            }
            for r in found.phases
        ],
        "fluctuation": None if found.around is None else _fluctuation(found.around, history),
        "verdicts": [asdict(verdict) for verdict in found.verdicts],
        "advice": found.advice.lines,
        "changes": [asdict(change) for change in found.advice.changes],
        "flags": flags(history, found.advice.changes),
        "ship": None if found.choice is None else asdict(found.choice),
        "tracking": None if history.tracking is None else as_values(history.tracking),
    }
    return without_nan(values)


def _fluctuation(around: Fluctuation, history: History) -> dict[str, Any]:
    return {
        "std": around.std,
        "values": around.values,
        "shares": asdict(around.shares) | dict.fromkeys(not_recorded(history)),
        "slopes": dict(around.effects.slopes),
        "sizes": {f"{size:g}": level for size, level in around.effects.sizes.items()},
        "slope_ratio": around.slope_ratio,
        "period": None if around.period is None else asdict(around.period),
    }
