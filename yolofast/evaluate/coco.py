"""COCO AP of a split, by faster-coco-eval: the numbers of pycocotools, in a tenth of the time.

Its tables are asked for and averaged here, because its own summary knows no classes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from yolofast.evaluate.coco_result import CocoResult, coco_result
from yolofast.evaluate.coco_rows import CocoRows, coco_rows
from yolofast.evaluate.coco_truth import coco_truth
from yolofast.image_index import ImageIndex, Ints
from yolofast.structures import Detections


class CocoMetrics:
    """Takes batches of any size, then gives the result, or the rows of a results file (`results_json`)."""

    def __init__(self, index: ImageIndex) -> None:
        self._index = index
        self._truth = coco_truth(index)
        self.found: list[tuple[int, Detections]] = []
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
        return coco_result(np.asarray(tables["precision"]), np.asarray(tables["recall"]), len(self._index.names))


def _as_objects(rows: CocoRows) -> list[dict[str, Any]]:
    """Numbered as `coco_truth` numbers images and classes."""
    columns = (rows.images + 1, rows.labels + 1, rows.boxes, rows.boxes[:, 2:].prod(axis=1), rows.scores)
    return [
        {"id": n, "image_id": image, "category_id": label, "bbox": box, "area": area, "score": score, "iscrowd": 0}
        for n, (image, label, box, area, score) in enumerate(zip(*(c.tolist() for c in columns), strict=True), start=1)
    ]


def _evaluate(truth: dict[str, Any], found: list[dict[str, Any]]) -> dict[str, Any]:
    from faster_coco_eval import COCO, COCOeval_faster  # slow to import, and only some runs need it

    evaluation = COCOeval_faster(_quiet(COCO, truth), _quiet(COCO, {**truth, "annotations": found}), iouType="bbox")
    evaluation.print_function = _say_nothing
    evaluation.evaluate()
    evaluation.accumulate()
    tables: dict[str, Any] = evaluation.eval
    return tables


def _quiet(coco: Any, document: dict[str, Any]) -> Any:
    return coco(document, print_function=_say_nothing)


def _say_nothing(*_: object) -> None:
    pass
