"""`evaluation.json` of a run's folder: how good its best weights are, in the detail a report needs.

Per class the scores of `--save-per-class-ap` and more; curves at 101 recalls; of the confusion matrix only the cells
that are not 0, because most are.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from yolofast.detect.accumulator import Evaluated
from yolofast.evaluate.result_files import per_class_table
from yolofast.evaluate.v7_metrics import GRID
from yolofast.files.atomic_file import write_whole
from yolofast.runs.layout import FILES

_RECALLS = np.linspace(0, 1, 101)
_MOST_CLASSES_WITH_CURVES = 200


def save_scores(folder: Path, found: Evaluated, names: Sequence[str]) -> None:
    content = json.dumps(scores_of(found, names), separators=(",", ":"), allow_nan=False) + "\n"
    write_whole(folder / FILES.evaluation, content.encode())


def scores_of(found: Evaluated, names: Sequence[str]) -> dict[str, Any]:
    metrics, faults = found.metrics, found.faults.per_image()
    per_class = {str(row.id): _rounded(asdict(row)) for row in per_class_table(metrics, names)}
    return {
        "epoch": found.epoch,
        "images": metrics.images,
        "images_with_faults": int((faults[:, 1:].sum(axis=1) > 0).sum()),
        "map50": metrics.map50,
        "map": metrics.map,
        "precision": metrics.mean_precision,
        "recall": metrics.mean_recall,
        "confidence": metrics.confidence,
        "names": list(names),
        "per_class": per_class,
        "confusion": [
            [int(r), int(c), int(found.confusion.counts[r, c])] for r, c in np.argwhere(found.confusion.counts)
        ],
        "precision_at_recall": _curves(found),
    }


def _curves(found: Evaluated) -> dict[str, list[float]]:
    """By class number, and of all classes together as `mean`."""
    rows = found.metrics.curves.precision_at_recall
    if not len(rows):
        return {}
    curves = {"mean": rows.mean(axis=0)}
    if len(rows) <= _MOST_CLASSES_WITH_CURVES:
        curves |= {str(label): row for label, row in zip(found.metrics.classes.tolist(), rows, strict=True)}
    return {name: np.interp(_RECALLS, GRID, row).round(4).tolist() for name, row in curves.items()}


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in row.items()}
