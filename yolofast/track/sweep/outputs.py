"""What a search leaves behind: `results.csv` for spreadsheets, `sweep.json` for programs."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from yolofast.files.atomic_file import write_output
from yolofast.runs.layout import FILES
from yolofast.track.sweep.figures import FIGURES, figures_of
from yolofast.track.sweep.findings import Findings
from yolofast.track.sweep.space import TRACKER, Trial

CSV, JSON = FILES.results, "sweep.json"
_MADE_BY = "yolofast tracksweep"


def write_results(folder: Path, found: Findings) -> list[Path]:
    text = json.dumps(as_json(found), indent=1)
    return [
        write_output(folder / CSV, _csv(found).encode()),
        write_output(folder / JSON, f"{text}\n".encode()),
    ]


def names_of(trials: Sequence[Trial]) -> list[str]:
    """All settings, the tracker first."""
    return list(dict.fromkeys([TRACKER, *(name for trial in trials for name in trial)]))


def _csv(found: Findings) -> str:
    """The best first; a setting that a tracker does not have is empty."""
    names = names_of(found.trials)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, *FIGURES, "front", "default"])
    front = set(found.front)
    for place in found.order:
        trial = found.trials[place]
        values = [_number(name, float(found.figures[name][place])) for name in FIGURES]
        marks = int(place in front), int(place in found.usual)
        writer.writerow([*(trial.get(name, "") for name in names), *values, *marks])
    return text.getvalue()


def as_json(found: Findings) -> dict[str, Any]:
    searched = found.searched
    return {
        "made_by": _MADE_BY,
        "by": found.by,
        "sequences": list(searched.sequences),
        "settings": len(found.trials),
        "distinct": searched.distinct,
        "best": {
            "settings": found.trials[found.best],
            "default": found.best in found.usual,
            **_figures(found, found.best),
            "interval": found.interval,
            "share_of_samples_in_which_it_is_best": found.share_best,
            "as_good": [found.trials[place] for place in found.as_good],
            "by_leaving_a_sequence_out": found.left_out,
            "sequences": {
                name: _rounded(figures_of(searched.rows[found.best, place : place + 1]))
                for place, name in enumerate(searched.sequences)
            },
        },
        "defaults": [
            {
                "settings": found.trials[one.trial],
                **_figures(found, one.trial),
                "best_is_better_by": one.value,
                "interval": one.interval,
            }
            for one in found.defaults
        ],
        "front": [{"settings": found.trials[place], **_figures(found, place)} for place in found.front],
        "effects": [
            {"setting": effect.name, "size": effect.size, "values": [vars(value) for value in effect.values]}
            for effect in found.effects
        ],
        "trials": [
            {"settings": found.trials[place], "default": place in found.usual, **_figures(found, place)}
            for place in found.order
        ],
    }


def _figures(found: Findings, place: int) -> dict[str, float]:
    return _rounded({name: float(values[place]) for name, values in found.figures.items()})


def _rounded(figures: dict[str, float]) -> dict[str, float]:
    return {name: _number(name, value) for name, value in figures.items()}


def _number(name: str, value: float) -> float:
    return round(value) if FIGURES[name].is_count else round(value, 9)
