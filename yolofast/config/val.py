"""The settings of evaluating. Without `--img-size` a network is evaluated at the size it was trained for."""

from dataclasses import dataclass
from functools import partial
from typing import Literal

from yolofast.config.common import DATA, EVALUATION, LOADER, MODEL, OUTPUT, Cache, RunConfig
from yolofast.config.settings import setting

_data = partial(setting, section=DATA)
_loader = partial(setting, section=LOADER)
_evaluation = partial(setting, section=EVALUATION)
_output = partial(setting, section=OUTPUT)


# ruff: noqa: RUF009 - `setting` makes a dataclass field
@dataclass(frozen=True, kw_only=True)
class ValConfig(RunConfig):
    # fmt: off
    weights: tuple[str, ...] = setting(
        (), "--weights", section=MODEL, published=("yolov7.pt",), yolov7=True, metavar="FILE", counts=(0, 100),
        help="trained weights; several form an ensemble; none: best.pt of the latest run")
    cfg: str = setting(
        "", "--cfg", "--model", section=MODEL, metavar="FILE", help="model, for weights that do not hold theirs")

    data: str = _data(
        "data/shapes.yaml", "--data", published="data/coco.yaml", yolov7=True, metavar="FILE",
        help="data set yaml; data/shapes.yaml is built in")
    task: Literal["val", "train", "test", "speed", "study"] = _data(
        "val", "--task", "--split", yolov7=True, help="the split, or: speed only; a study of sizes from 256 to 1536")
    img_size: tuple[int, ...] | None = _data(
        None, "--img-size", "--img", "--imgsz", published=(640,), yolov7=True, least=32, most=32_768, counts=(1, 2),
        help="pixels of the long side, for YOLOX also height and width; by default as in training, else 640")
    single_cls: bool = _data(False, "--single-cls", yolov7=True, help="treat all classes as one")
    fraction: float = _data(1.0, "--fraction", above=0, most=1, help="share of the images to use")
    skip_bad: bool = _data(
        False, "--skip-bad", help="omit images that `yolofast check` finds faulty, instead of stopping")

    batch_size: int = _loader(
        32, "--batch-size", "--batch", yolov7=True, least=1, help="images per batch, over all GPUs")
    workers: int = _loader(8, "--workers", least=0, most=4096, help="worker processes per GPU, at most")
    cache: Cache = _loader("auto", "--cache", bare="ram", help="where the pixels live")
    rect: bool = _loader(True, "--rect", help="batches of similar shapes, padded as little as they need")

    conf_thres: float | None = _evaluation(
        None, "--conf-thres", "--conf", published=0.001, yolov7=True, least=0, most=1,
        help="omit detections with a lower score; by default 0.001, for YOLOX 0.01")
    iou_thres: float = _evaluation(
        0.65, "--iou-thres", "--iou", yolov7=True, least=0, most=1, help="IoU above which a box is suppressed")
    max_det: int = _evaluation(300, "--max-det", least=1, most=30_000, help="detections per image, at most")
    augment: bool = _evaluation(
        False, "--augment", yolov7=True, help="test-time augmentation: several sizes, one mirrored")
    v5_metric: bool = _evaluation(
        False, "--v5-metric", yolov7=True, help="precision curves reach to recall 1, as in YOLOv5")
    coco: bool = _evaluation(False, "--coco", help="COCO's AP too, in all and by size of the objects")
    no_trace: bool = _evaluation(
        False, "--no-trace", yolov7=True, without_effect=True, help="nothing is ever traced here")

    project: str = _output(
        "runs/val", "--project", published="runs/test", yolov7=True, metavar="FOLDER", help="folder of runs")
    verbose: bool = _output(False, "--verbose", yolov7=True, help="a row per class")
    save_txt: bool = _output(False, "--save-txt", yolov7=True, help="detections as label files")
    save_hybrid: bool = _output(
        False, "--save-hybrid", yolov7=True, help="labels, and detections that are not among them, as label files")
    save_conf: bool = _output(False, "--save-conf", yolov7=True, help="with the score as last column")
    save_json: bool = _output(
        False, "--save-json", yolov7=True, help="detections as a COCO file, and COCO's AP of them (--coco)")
    save_per_class_ap: str | None = _output(
        None, "--save-per-class-ap", metavar="FILE", help="write AP of all and of each class as JSON")
    plots: bool = _output(True, "--plots", help="draw curves, confusion matrix and examples")
    # fmt: on
