"""What is kept of a setting's result, and every figure that follows from it.

A sequence is a row of numbers that may be added over sequences: matches, switches, sums. Figures come from sums of
rows. So the figures of all sequences, of some of them, or of a thousand samples of them, are one product of matrices.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from yolofast.track.formats.sequence import Floats
from yolofast.track.score import clear, hota, identity
from yolofast.track.score.hota import ALPHAS
from yolofast.track.score.prepare import Prepared

_ALPHAS = len(ALPHAS)
_NUMBERS = ("CLR_TP", "CLR_FN", "CLR_FP", "IDSW", "MT", "PT", "ML", "Frag", "MOTP_sum", "IDTP", "IDFN", "IDFP", "Dets",
            "GT_Dets", "IDs", "GT_IDs")  # fmt: skip
WIDTH = 2 * _ALPHAS + len(_NUMBERS)
"""Numbers of a row: matches and associations by overlap, then `_NUMBERS`."""
_AT = {name: 2 * _ALPHAS + place for place, name in enumerate(_NUMBERS)}


def row_of(given: Prepared) -> Floats:
    """[WIDTH] of one sequence."""
    association = hota.hota(given)
    counts: dict[str, Any] = clear.clear(given, clear.match(given)) | identity.identity(given)
    counts |= {
        "Dets": len(given.results), "GT_Dets": len(given.truth),
        "IDs": len(given.result_ids), "GT_IDs": len(given.truth_ids),
    }  # fmt: skip
    found: Floats = association["HOTA_TP"]
    return np.concatenate((found, association["AssA"] * found, [float(counts[name]) for name in _NUMBERS]))


@dataclass(frozen=True)
class TrackFigure:
    """Of sums of rows […, WIDTH]."""

    of: Callable[[Floats], Floats]
    lower_is_better: bool = False
    is_count: bool = False


def _ratio(above: Floats, below: Floats) -> Floats:
    return above / np.maximum(1, below)


def _detection(rows: Floats) -> Floats:
    found = rows[..., :_ALPHAS]
    return _ratio(found, rows[..., _AT["Dets"], None] + rows[..., _AT["GT_Dets"], None] - found)


def _association(rows: Floats) -> Floats:
    return _ratio(rows[..., _ALPHAS : 2 * _ALPHAS], rows[..., :_ALPHAS])


def _number(name: str) -> Callable[[Floats], Floats]:
    return lambda rows: rows[..., _AT[name]]


def _mota(rows: Floats) -> Floats:
    found, wrong, switched = (rows[..., _AT[name]] for name in ("CLR_TP", "CLR_FP", "IDSW"))
    return _ratio(found - wrong - switched, rows[..., _AT["GT_Dets"]])


def _identity(truth: float, results: float) -> Callable[[Floats], Floats]:
    """The share of agreeing boxes, of those of the truth, of the results, or half of each."""
    return lambda rows: _ratio(
        rows[..., _AT["IDTP"]], truth * rows[..., _AT["GT_Dets"]] + results * rows[..., _AT["Dets"]]
    )


FIGURES: dict[str, TrackFigure] = {
    "HOTA": TrackFigure(lambda rows: np.sqrt(_detection(rows) * _association(rows)).mean(-1)),
    "DetA": TrackFigure(lambda rows: _detection(rows).mean(-1)),
    "AssA": TrackFigure(lambda rows: _association(rows).mean(-1)),
    "MOTA": TrackFigure(_mota),
    "MOTP": TrackFigure(lambda rows: _ratio(rows[..., _AT["MOTP_sum"]], rows[..., _AT["CLR_TP"]])),
    "IDF1": TrackFigure(_identity(0.5, 0.5)),
    "IDP": TrackFigure(_identity(0, 1)),
    "IDR": TrackFigure(_identity(1, 0)),
    "IDSW": TrackFigure(_number("IDSW"), lower_is_better=True, is_count=True),
    "FP": TrackFigure(_number("CLR_FP"), lower_is_better=True, is_count=True),
    "FN": TrackFigure(_number("CLR_FN"), lower_is_better=True, is_count=True),
    "Frag": TrackFigure(_number("Frag"), lower_is_better=True, is_count=True),
    "MT": TrackFigure(_number("MT"), is_count=True),
    "ML": TrackFigure(_number("ML"), lower_is_better=True, is_count=True),
    "tracks": TrackFigure(_number("IDs"), lower_is_better=True, is_count=True),
}


def figures_of(rows: Floats) -> dict[str, float]:
    """Of sequences [sequences, WIDTH] together."""
    total = rows.sum(-2)
    return {name: float(figure.of(total)) for name, figure in FIGURES.items()}


def shown_figure(name: str, value: float) -> str:
    """As a person reads it: counts whole, shares as percentages."""
    return f"{round(value):,}" if FIGURES[name].is_count else f"{100 * value:.3f}"


def worth(name: str, values: Floats) -> Floats:
    """More is better."""
    return -values if FIGURES[name].lower_is_better else values
