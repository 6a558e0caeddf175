"""The scores of each class as plain data, for tables and for `--save-per-class-ap`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yolofast.atomic_file import write_output
from yolofast.evaluate.v7_metrics import V7Result


@dataclass(frozen=True, kw_only=True)
class ClassRow:
    id: int
    name: str
    boxes: int
    """How many there are to find."""
    precision: float
    recall: float
    f1: float
    ap50: float
    ap: float


def per_class_table(result: V7Result, names: Sequence[str]) -> list[ClassRow]:
    """One row per class that occurs in the ground truth."""
    columns = (result.classes, result.boxes, result.precision, result.recall, result.f1, result.ap[:, 0])
    return [
        ClassRow(id=label, name=names[label], boxes=boxes, precision=p, recall=r, f1=f1, ap50=ap50, ap=ap)
        for label, boxes, p, r, f1, ap50, ap in zip(
            *(column.tolist() for column in columns), result.ap.mean(axis=1).tolist(), strict=True
        )
    ]


def per_class_ap(result: V7Result, names: Sequence[str]) -> dict[str, Any]:
    rows = per_class_table(result, names)
    per_class = {str(row.id): {"ap50": row.ap50, "ap": row.ap, "name": row.name} for row in rows}
    return {"map50": result.map50, "map": result.map, "per_class": per_class}


def save_per_class_ap(path: str | Path, result: V7Result, names: Sequence[str]) -> Path:
    return write_output(path, json.dumps(per_class_ap(result, names), indent=1, ensure_ascii=False).encode())
