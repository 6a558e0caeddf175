"""COCO's twelve numbers of a split, in all and per class, by faster-coco-eval.

It gives the numbers of pycocotools in a tenth of the time. Its tables are averaged here, because its own summary has no
classes. A number without any object to base it on is -1.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from yolofast.evaluate.coco_truth import coco_truth
from yolofast.evaluate.result_files import CocoRows, coco_rows
from yolofast.image_index import ImageIndex, Ints
from yolofast.structures import Detections

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


def _scores(precision: Floats, recall: Floats) -> CocoScores:
    """From COCO's tables: precision [threshold, recall, class, size, most], recall [threshold, class, size, most]."""
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


class CocoMetrics:
    """Takes batches of any size, then gives the result, or the rows of a results file (`results_json`)."""

    def __init__(self, index: ImageIndex, found: Sequence[tuple[int, Detections]] = ()) -> None:
        self._index = index
        self._truth = coco_truth(index)
        self.found = list(found)
        """What was added: place in the split, detections. A process sends this to the one that gives the result."""

    def add(self, images: Sequence[int] | Ints, detections: Sequence[Detections]) -> None:
        """`images` are places in the split (`Batch.sources`), detections in pixels of the original images."""
        self.found += zip(map(int, images), detections, strict=True)

    def merge(self, found: Sequence[tuple[int, Detections]]) -> None:
        """Add what another process gathered: its `found`."""
        self.found += found

    def rows(self) -> CocoRows:
        return coco_rows(self.found, self._truth.scale)

    def result(self) -> CocoResult:
        tables = _evaluate(self._truth.document, _as_objects(self.rows()))
        precision, recall = np.asarray(tables["precision"]), np.asarray(tables["recall"])
        labels = range(len(self._index.names))
        per_class = tuple(_scores(precision[:, :, [label]], recall[:, [label]]) for label in labels)
        return CocoResult(all=_scores(precision, recall), per_class=per_class)


def _as_objects(rows: CocoRows) -> list[dict[str, Any]]:
    """Numbered as `coco_truth` numbers images and classes."""
    columns = (rows.images + 1, rows.labels + 1, rows.boxes, rows.boxes[:, 2:].prod(axis=1), rows.scores)
    return [
        {"id": n, "image_id": image, "category_id": label, "bbox": box, "area": area, "score": score, "iscrowd": 0}
        for n, (image, label, box, area, score) in enumerate(zip(*(c.tolist() for c in columns), strict=True), start=1)
    ]


def _evaluate(truth: dict[str, Any], found: list[dict[str, Any]]) -> dict[str, Any]:
    from faster_coco_eval import COCO, COCOeval_faster  # slow to import, and only some runs need it

    documents = (truth, {**truth, "annotations": found})
    both = (COCO(document, print_function=_say_nothing) for document in documents)
    evaluation = COCOeval_faster(*both, iouType="bbox")
    evaluation.print_function = _say_nothing
    evaluation.evaluate()
    evaluation.accumulate()
    tables: dict[str, Any] = evaluation.eval
    return tables


def _say_nothing(*_: object) -> None:
    pass
