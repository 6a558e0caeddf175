"""`yolofast val`: how good a trained detector is on a split, in numbers and pictures; how fast; at which sizes."""

import argparse
from functools import partial
from pathlib import Path

from rich.console import Console

from yolofast.config.flags import from_args
from yolofast.config.predict import ValConfig
from yolofast.detect.networks import TrainedModel, read_all_trained, weights_of
from yolofast.detect.validation import Validation, measure_speed, open_subject, study, validate
from yolofast.evaluate.coco import CocoResult, CocoScores
from yolofast.evaluate.result_files import per_class_table
from yolofast.evaluate.study import COLUMNS, STUDY_SIZES, StudyRow, save_study_plot, save_study_text
from yolofast.media.pictures import UniqueNames
from yolofast.runs.folder import new_run_folder
from yolofast.terminal.console import console, table

_FEW_CLASSES = 30
"""Up to which each has its row without being asked for."""


def run(args: argparse.Namespace) -> None:
    config, out = from_args(ValConfig, args), console()
    files = weights_of(config.weights, partial(out.print, soft_wrap=True))
    trained = read_all_trained(files, config.cfg or None, config.head_config or None, config.device)
    if config.task == "study":
        _run_study(config, trained, out)
        return
    subject = open_subject(config, trained, out.print)
    if config.task == "speed":
        out.print(str(measure_speed(subject)), soft_wrap=True)
        return
    result = validate(subject, new_run_folder(config.project, config.name, config.exist_ok))
    _show(result, config, out)
    if result.coco is not None:
        _show_coco(result.coco, result.names, config, out)
    images, seconds = result.metrics.images, result.seconds
    height, width = result.shape
    size = str(width) if width == height else f"{height}×{width}"
    out.print(f"{images:,} images at {size} pixels in {seconds:.1f} s: {images / seconds:,.0f} per second")
    out.print(f"results: {result.folder}", soft_wrap=True)


def _show(result: Validation, config: ValConfig, out: Console) -> None:
    metrics = result.metrics
    listing = table("class", ">images", ">boxes", ">P", ">R", ">mAP50", ">mAP50-95")
    scores = (metrics.mean_precision, metrics.mean_recall, metrics.map50, metrics.map)
    listing.add_row("all", f"{metrics.images:,}", f"{metrics.boxes.sum():,}", *(f"{score:.3f}" for score in scores))
    few = 1 < len(result.names) <= _FEW_CLASSES
    for row in per_class_table(metrics, result.names) if config.verbose or few else ():
        scores = (row.precision, row.recall, row.ap50, row.ap)
        listing.add_row(row.name, "", f"{row.boxes:,}", *(f"{score:.3f}" for score in scores))
    out.print(listing)


def _show_coco(result: CocoResult, names: tuple[str, ...], config: ValConfig, out: Console) -> None:
    listing = table("COCO", ">AP", ">AP50", ">AP75", ">small", ">medium", ">large", ">AR100")
    listing.add_row("all", *_coco_columns(result.all))
    for name, scores in zip(names, result.per_class, strict=True) if config.verbose else ():
        listing.add_row(name, *_coco_columns(scores))
    out.print(listing)


def _coco_columns(scores: CocoScores) -> list[str]:
    """A number without any object to base it on is -1, and is not shown."""
    values = (scores.ap, scores.ap50, scores.ap75, scores.ap_small, scores.ap_medium, scores.ap_large, scores.ar100)
    return [f"{value:.3f}" if value >= 0 else "–" for value in values]


def _run_study(config: ValConfig, trained: list[TrainedModel], out: Console) -> None:
    """Each network by itself: a curve each."""
    subjects = [open_subject(config, [one], out.print) for one in trained]
    folder = new_run_folder(config.project, config.name, config.exist_ok)
    studies: dict[str, list[StudyRow]] = {}
    names = UniqueNames()
    for one, subject in zip(trained, subjects, strict=True):
        name = names.of(one.path)
        studies[name] = study(subject, STUDY_SIZES)
        listing = table(name, *(f">{column}" for column in COLUMNS))
        for row in studies[name]:
            size, *scores, inference, suppression, total = row.values()
            times = (f"{value:.2f}" for value in (inference, suppression, total))
            listing.add_row("", str(size), *(f"{score:.3f}" for score in scores), *times)
        out.print(listing)
        save_study_text(folder / f"study_{Path(config.data).stem}_{name}.txt", studies[name])
        save_study_plot(folder / "study.png", studies)
    out.print(f"results: {folder}", soft_wrap=True)
