"""COCO's twelve numbers, in all and per class, as plain data. A number without any object to base it on is -1."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_SIZES = ("small", "medium", "large")


@dataclass(frozen=True, kw_only=True)
class CocoScores:
    """AP at overlaps of 0.50 to 0.95 unless it says otherwise; recall with at most 1, 10 or 100 detections per image
    and class. Small is below 32² pixels, large above 96².
    """

    ap: float
    ap50: float
    ap75: float
    ap_small: float
    ap_medium: float
    ap_large: float
    ar1: float
    ar10: float
    ar100: float
    ar_small: float
    ar_medium: float
    ar_large: float


@dataclass(frozen=True, kw_only=True)
class CocoResult:
    all: CocoScores
    per_class: tuple[CocoScores, ...]
    """One entry per class of the split."""

    def as_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """For JSON: `all` by name of the number, `per_class` by label, each with its name."""
        rows = enumerate(zip(names, self.per_class, strict=True))
        return {
            "all": asdict(self.all),
            "per_class": {str(label): {"name": name, **asdict(scores)} for label, (name, scores) in rows},
        }


def coco_result(precision: Floats, recall: Floats, classes: int) -> CocoResult:
    """From COCO's tables: precision [threshold, recall, class, size, most], recall [threshold, class, size, most]."""
    per_class = [_scores(precision[:, :, [label]], recall[:, [label]]) for label in range(classes)]
    return CocoResult(all=_scores(precision, recall), per_class=tuple(per_class))


def _scores(precision: Floats, recall: Floats) -> CocoScores:
    by_size: dict[str, Any] = {}
    for place, size in enumerate(_SIZES, start=1):
        by_size[f"ap_{size}"] = _mean(precision[..., place, -1])
        by_size[f"ar_{size}"] = _mean(recall[..., place, -1])
    return CocoScores(
        ap=_mean(precision[..., 0, -1]),
        ap50=_mean(precision[0, ..., 0, -1]),
        ap75=_mean(precision[5, ..., 0, -1]),
        ar1=_mean(recall[..., 0, 0]),
        ar10=_mean(recall[..., 0, 1]),
        ar100=_mean(recall[..., 0, 2]),
        **by_size,
    )


def _mean(values: Floats) -> float:
    known = values[values > -1]
    return float(known.mean()) if known.size else -1.0
