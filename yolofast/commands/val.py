"""`yolofast val`: how good a trained detector is on a split, in numbers and pictures."""

import argparse
import json
from pathlib import Path

from rich.console import Console

from yolofast.commands.console import console, table
from yolofast.commands.latest_weights import weights_of
from yolofast.commands.load_model import load_model
from yolofast.config.flags import from_args
from yolofast.config.val import ValConfig
from yolofast.dataset.split import read_split
from yolofast.engine.devices import device_of
from yolofast.engine.evaluation import Evaluated, evaluate
from yolofast.engine.precision import Precision
from yolofast.engine.run_folder import new_run_folder
from yolofast.engine.setup import data_yaml_of
from yolofast.errors import UserError
from yolofast.evaluate.coco import CocoMetrics
from yolofast.evaluate.coco_rows import results_json
from yolofast.evaluate.output_file import write_output
from yolofast.evaluate.per_class import per_class_table, save_per_class_ap
from yolofast.evaluate.plots import save_plots
from yolofast.image_index import ImageIndex
from yolofast.loader.validation import validation_batches
from yolofast.store.opening import open_images

_DEFAULT_SIZE = 640


def run(args: argparse.Namespace) -> None:
    config = from_args(ValConfig, args)
    out = console()
    weights = weights_of(config.weights)
    device = device_of(config.device)
    model, _ = load_model(config.cfg or None, weights, None, config.head_config or None, transfer=False)
    model = model.to(device).eval()
    split = config.task if config.task in ("train", "val", "test") else "val"
    index = read_split(
        data_yaml_of(config.data, out.print), split, single_cls=config.single_cls, fraction=config.fraction,
        skip_bad=config.skip_bad,
    )  # fmt: skip
    if model.nc != len(index.names):
        what = f"{weights} knows {model.nc} classes, but the data set has {len(index.names)}"
        raise UserError(what, fix="evaluate it on the data it was trained for")
    size = config.img_size or _DEFAULT_SIZE
    cache = "disk" if config.cache in ("auto", "gpu") else config.cache
    images, _ = open_images(index, size, size, cache, augmented=False, say=out.print)
    batches = validation_batches(index, images, config.batch_size, size, max(model.layout.strides), rect=config.rect)
    coco = CocoMetrics(index) if config.save_json else None
    found = evaluate(
        model, batches, index, Precision.choose(config.precision, device), conf=config.conf_thres,
        iou=config.iou_thres, most=config.max_det, v5_metric=config.v5_metric, coco=coco,
    )  # fmt: skip
    folder = new_run_folder(config.project, config.name, config.exist_ok)
    _show(found, index, config, out)
    _save(found, index, config, folder, coco, out)


def _show(found: Evaluated, index: ImageIndex, config: ValConfig, out: Console) -> None:
    metrics = found.metrics
    listing = table("class", ">images", ">boxes", ">P", ">R", ">mAP50", ">mAP50-95")
    scores = (metrics.mean_precision, metrics.mean_recall, metrics.map50, metrics.map)
    listing.add_row("all", f"{metrics.images:,}", f"{metrics.boxes.sum():,}", *(f"{score:.3f}" for score in scores))
    for row in per_class_table(metrics, index.names) if config.verbose else ():
        own = (row.precision, row.recall, row.ap50, row.ap)
        listing.add_row(row.name, "", f"{row.boxes:,}", *(f"{score:.3f}" for score in own))
    out.print(listing)


def _save(
    found: Evaluated, index: ImageIndex, config: ValConfig, folder: Path, coco: CocoMetrics | None, out: Console
) -> None:
    if config.plots:
        save_plots(folder, found.metrics, found.confusion, index.names)
    if config.save_per_class_ap:
        save_per_class_ap(config.save_per_class_ap, found.metrics, index.names)
    if coco is not None:
        write_output(folder / "predictions.json", results_json(coco.rows(), index))
        scores = coco.result().as_dict(index.names)
        write_output(folder / "coco.json", (json.dumps(scores, indent=2) + "\n").encode())
        out.print(f"COCO AP {scores['all']['ap']:.3f}, AP50 {scores['all']['ap50']:.3f}")
    out.print(f"results: {folder}")
