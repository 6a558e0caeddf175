"""The settings of evaluating. Without `--img-size` a network is evaluated at the size it was trained for."""

from dataclasses import dataclass
from typing import Literal

from yolofast.config import section
from yolofast.config.common import Cache, RunConfig


# ruff: noqa: RUF009 - `section` makes dataclass fields
@dataclass(frozen=True, kw_only=True)
class ValConfig(RunConfig):
    # fmt: off
    weights: tuple[str, ...] = section.model(
        (), "--weights", published=("yolov7.pt",), yolov7=True, metavar="FILE", counts=(0, 100),
        help="trained weights; several form an ensemble; none: best.pt of the latest run")
    cfg: str = section.model(
        "", "--cfg", "--model", metavar="FILE", help="model, for weights that do not hold theirs")

    data: str = section.data(
        "data/shapes.yaml", "--data", published="data/coco.yaml", yolov7=True, metavar="FILE",
        help="data set yaml; data/shapes.yaml is built in")
    task: Literal["val", "train", "test", "speed", "study"] = section.data(
        "val", "--task", "--split", yolov7=True, help="the split, or: speed only; a study of sizes from 256 to 1536")
    img_size: tuple[int, ...] | None = section.data(
        None, "--img-size", "--img", "--imgsz", published=(640,), yolov7=True, least=32, most=32_768, counts=(1, 2),
        help="pixels of the long side, for YOLOX also height and width; by default as in training, else 640")
    single_cls: bool = section.data(False, "--single-cls", yolov7=True, help="treat all classes as one")
    fraction: float = section.data(1.0, "--fraction", above=0, most=1, help="share of the images to use")
    skip_bad: bool = section.data(
        False, "--skip-bad", help="omit images that `yolofast check` finds faulty, instead of stopping")

    batch_size: int = section.loader(
        32, "--batch-size", "--batch", yolov7=True, least=1, help="images per batch, over all GPUs")
    workers: int = section.loader(8, "--workers", least=0, most=4096, help="worker processes per GPU, at most")
    cache: Cache = section.loader("auto", "--cache", bare="ram", help="where the pixels live")
    rect: bool = section.loader(True, "--rect", help="batches of similar shapes, padded as little as they need")

    conf_thres: float | None = section.evaluation(
        None, "--conf-thres", "--conf", published=0.001, yolov7=True, least=0, most=1,
        help="omit detections with a lower score; by default 0.001, for YOLOX 0.01")
    iou_thres: float = section.evaluation(
        0.65, "--iou-thres", "--iou", yolov7=True, least=0, most=1, help="IoU above which a box is suppressed")
    max_det: int = section.evaluation(300, "--max-det", least=1, most=30_000, help="detections per image, at most")
    augment: bool = section.evaluation(
        False, "--augment", yolov7=True, help="test-time augmentation: several sizes, one mirrored")
    v5_metric: bool = section.evaluation(
        False, "--v5-metric", yolov7=True, help="precision curves reach to recall 1, as in YOLOv5")
    coco: bool = section.evaluation(False, "--coco", help="COCO's AP too, in all and by size of the objects")
    no_trace: bool = section.evaluation(
        False, "--no-trace", yolov7=True, without_effect=True, help="nothing is ever traced here")

    project: str = section.output(
        "runs/val", "--project", published="runs/test", yolov7=True, metavar="FOLDER", help="folder of runs")
    verbose: bool = section.output(
        False, "--verbose", yolov7=True, help="a row per class, also where they are more than 30, and for --coco")
    save_txt: bool = section.output(False, "--save-txt", yolov7=True, help="detections as label files")
    save_hybrid: bool = section.output(
        False, "--save-hybrid", yolov7=True, help="labels, and detections that are not among them, as label files")
    save_conf: bool = section.output(False, "--save-conf", yolov7=True, help="with the score as last column")
    save_json: bool = section.output(
        False, "--save-json", yolov7=True, help="detections as a COCO file, and COCO's AP of them (--coco)")
    save_per_class_ap: str | None = section.output(
        None, "--save-per-class-ap", metavar="FILE", help="write AP of all and of each class as JSON")
    plots: bool = section.output(True, "--plots", help="draw curves, confusion matrix and examples")
    # fmt: on
