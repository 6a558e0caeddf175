"""The files of an evaluation: curves, label files, COCO's results."""

import json
from collections.abc import Iterable
from pathlib import Path

from yolofast.atomic_file import write_one_of_many, write_output
from yolofast.engine.file_names import UniqueNames
from yolofast.engine.tally import Evaluated
from yolofast.engine.val_subject import Subject
from yolofast.evaluate.coco import CocoMetrics
from yolofast.evaluate.coco_result import CocoResult
from yolofast.evaluate.coco_rows import results_json
from yolofast.evaluate.ground_truth import ground_truth
from yolofast.evaluate.hybrid import with_labels
from yolofast.evaluate.label_text import label_text
from yolofast.evaluate.per_class import save_per_class_ap
from yolofast.evaluate.plots import save_plots
from yolofast.structures import Detections


def save_files(
    subject: Subject, evaluated: Evaluated, coco: CocoMetrics | None, result: CocoResult | None, folder: Path
) -> None:
    config, index = subject.config, subject.index
    if config.plots:
        save_plots(folder, evaluated.metrics, evaluated.confusion, index.names)
    if config.save_per_class_ap:
        save_per_class_ap(config.save_per_class_ap, evaluated.metrics, index.names)
    if config.save_txt or config.save_hybrid:
        found = _hybrid(subject, evaluated) if config.save_hybrid else evaluated.found
        _save_labels(subject, found, folder / "labels")
    if coco is not None and config.save_json:
        write_output(folder / "predictions.json", results_json(coco.rows(), index))
    if result is not None:
        content = json.dumps(result.as_dict(index.names), indent=2) + "\n"
        write_output(folder / "coco.json", content.encode())


def _hybrid(subject: Subject, evaluated: Evaluated) -> Iterable[tuple[int, Detections]]:
    for place, found in evaluated.found:
        (truth,) = ground_truth(subject.index, [place])
        yield place, with_labels(found, truth, subject.config.iou_thres)


def _save_labels(subject: Subject, found: Iterable[tuple[int, Detections]], folder: Path) -> None:
    names = UniqueNames()
    for place, detections in found:
        width, height = (int(side) for side in subject.index.sizes[place])
        text = label_text(detections, width, height, scores=subject.config.save_conf)
        write_one_of_many(folder / f"{names.of(subject.index.path(place))}.txt", text.encode())
