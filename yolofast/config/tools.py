"""The settings of the commands around training that read a network or a data set."""

from dataclasses import dataclass
from functools import partial
from typing import Literal

from yolofast.config import section
from yolofast.config.common import TRUST
from yolofast.config.settings import REQUIRED, Settings, setting
from yolofast.errors import UserError
from yolofast.extensions import EXPORT_FORMATS

# ruff: noqa: RUF009 - `section` makes dataclass fields

# Declared once for the commands that share them.
_model = partial(setting, None, "--cfg", "--model", help="model file, packaged path or short name such as yolov7-tiny")
_classes = partial(setting, None, "--nc", help="number of classes, if not that of the file")
_heads = partial(
    setting, None, "--head-config", help="which head owns which classes (1B4H): a file, standard, geometry, …"
)
_data_set = partial(setting, REQUIRED, "--data", help="data set yaml, or shapes")
_skip_bad = partial(setting, False, "--skip-bad", help="omit images that `check` finds faulty")
_SIZE = "pixels, or height and width"
_image_size = partial(
    setting, (640,), "--img-size", "--img", "--imgsz", least=1, most=32_768, counts=(1, 2), metavar="N", help=_SIZE
)


@dataclass(frozen=True, kw_only=True)
class InfoConfig(Settings):
    # fmt: off
    cfg: str | None = _model()
    weights: str | None = setting(None, "--weights", help="weight file")
    nc: int | None = _classes()
    head_config: str | None = _heads()
    transfer_weights: bool = setting(
        False, "--transfer-weights", help="load what matches by name and shape, list the rest")
    img_size: tuple[int, ...] | None = setting(
        None, "--img-size", "--img", "--imgsz", least=1, most=32_768, counts=(1, 2), metavar="N",
        help=f"{_SIZE}; by default the size the weights or such networks were trained at")
    freeze: tuple[int | str, ...] = setting(
        (0,), "--freeze", metavar="N",
        help="freeze layers 0 to N-1, or exactly the given ones; or parts by name: backbone neck, backbone.dark*")
    fuse: bool = setting(False, "--fuse", help="after folding BatchNorm, RepConv and implicit layers")
    layers: bool = setting(False, "--layers", help="a row per layer instead of per section")
    json: bool = setting(False, "--json", help="print JSON")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class WeightsConfig(Settings):
    # fmt: off
    name: str | None = setting(
        None, "name", help="network or file: yolox-nano, yolov7-tiny, yolov7_training; without it all are listed")
    out: str | None = setting(None, "--out", metavar="PLACE", help="folder or file, by default here")
    source: str | None = setting(
        None, "--from", metavar="ADDRESS", help="a mirror: the address of a folder that holds the publisher's files")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class CacheConfig(Settings):
    # fmt: off
    data: str | None = setting(None, "--data", metavar="PLACE", help="a data yaml, or its folder: its cache too")
    clear: bool = setting(False, "--clear", help="remove it; whatever is needed again is made again")
    older: float | None = setting(None, "--older", least=0, metavar="DAYS", help="only what was not used for so long")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class StripConfig(Settings):
    weights: str = setting(REQUIRED, "--weights", help="checkpoint to strip")
    out: str | None = setting(None, "--out", help="where to write it; by default in place")


@dataclass(frozen=True, kw_only=True)
class ReparamConfig(Settings):
    weights: str = setting(REQUIRED, "--weights", help="trained weights")
    cfg: str | None = setting(None, "--cfg", help="training graph, for weight files that do not hold it")
    nc: int | None = _classes()
    out: str = setting(REQUIRED, "--out", help="where to write the deploy weights")


@dataclass(frozen=True, kw_only=True)
class HeadsConfig(Settings):
    data: str = _data_set()
    grouping: Literal["geometry", "hybrid"] = setting("geometry", "--grouping", help="default: {default}")
    heads: int = setting(4, "--heads", help="number of heads, default: {default}")
    no_balance: bool = setting(False, "--no-balance", help="hybrid: clusters of any size")
    full_head: bool = setting(False, "--full-head", help="every head predicts every class")
    out: str = setting(REQUIRED, "--out", help="where to write the head config")


@dataclass(frozen=True, kw_only=True)
class AnchorsConfig(Settings):
    data: str = _data_set()
    cfg: str | None = _model()
    weights: str | None = setting(None, "--weights", help="weight file")
    nc: int | None = _classes()
    head_config: str | None = _heads()
    img_size: tuple[int, ...] = _image_size()
    anchor_t: float = setting(4.0, "--anchor-t", help="largest ratio of sizes that matches: {default}")
    seed: int = setting(0, "--seed", help="default: {default}")


_new_folder = partial(setting, REQUIRED, "--out", metavar="DIR", help="folder to make")


@dataclass(frozen=True, kw_only=True)
class ShapesConfig(Settings):
    out: str = _new_folder()
    seed: int = setting(0, "--seed", help="default: {default}")
    n: int = setting(1000, "--n", help="images to train on, default: {default}")


@dataclass(frozen=True, kw_only=True)
class ShapesVideoConfig(Settings):
    # fmt: off
    out: str = _new_folder()
    seed: int = setting(0, "--seed", help="default: {default}")
    sequences: int | None = setting(None, "--sequences", metavar="N", help="how many, by default 3")
    frames: int | None = setting(None, "--frames", metavar="N", help="of each sequence, by default 150")
    size: str | None = setting(None, "--size", metavar="WxH", help="pixels, by default 320x240")
    fps: float | None = setting(None, "--fps", metavar="X", help="frames per second, by default 30")
    drop: float | None = setting(None, "--drop", metavar="X", help="share of frames that are missing, by default 0")
    shake: float | None = setting(
        None, "--shake", metavar="X", help="pixels the camera moves to each side, by default 0")
    objects: int | None = setting(None, "--objects", metavar="N", help="shapes in each, by default 6")
    video: bool = setting(False, "--video", help="SEQ.mp4 instead of images")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class ResizeConfig(Settings):
    # fmt: off
    data: str = _data_set()
    out: str = _new_folder()
    img_size: int = setting(
        REQUIRED, "--img-size", "--img", "--imgsz", least=10, most=32_768, metavar="N",
        help="longest side in pixels; smaller images stay as they are")
    quality: int = setting(95, "--quality", least=1, most=100, metavar="N", help="of JPEG, default: {default}")
    skip_bad: bool = setting(False, "--skip-bad", help="omit images that cannot be read")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class PackConfig(Settings):
    # fmt: off
    data: str = _data_set()
    img_size: tuple[int, ...] = _image_size()
    cache: Literal["disk", "jpeg"] = setting("disk", "--cache", help="plain pixels, or JPEG (a seventh)")
    splits: tuple[str, ...] = setting(("train", "val"), "--splits", metavar="SPLIT", help="default: {default}")
    out: str | None = setting(
        None, "--out", metavar="FOLDER", help="where to put the store; by default .yolofast next to the data")
    to: str | None = setting(
        None, "--to", metavar="PLACE",
        help="write images and labels as tar files instead, which training reads as they lie: a folder, or s3://…")
    verify: bool = setting(False, "--verify", help="read everything back and compare the checksums")
    skip_bad: bool = _skip_bad()
    trust_index: bool = setting(False, "--trust-index", help=TRUST)
    workers: int | None = setting(None, "--workers", least=1, metavar="N", help="threads, by default one per core")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class ImportConfig(Settings):
    # fmt: off
    source: str = setting(
        REQUIRED, "source", metavar="SOURCE",
        help="X.zip, X.tar, X.parquet, also as URL, or hf:NAME: images with YOLO labels, or columns image and objects")
    out: str | None = setting(
        None, "--out", metavar="PLACE", help="a folder, or a URL such as s3://bucket/set; default: named as the source")
    names: tuple[str, ...] = setting(
        (), "--names", metavar="NAME", counts=(0, 100_000), help="of the classes, where the source has none")
    val: float = setting(0.0, "--val", least=0, most=0.9, metavar="SHARE", help="of the train images, to validate on")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class CheckConfig(Settings):
    # fmt: off
    data: str = _data_set()
    splits: tuple[str, ...] | None = setting(None, "--splits", metavar="SPLIT", help="default: all that the yaml names")
    single_cls: bool = setting(False, "--single-cls", help="read all labels as one class")
    plot: str | None = setting(
        None, "--plot", "--out", metavar="FILE", help="draw an overview of the labels: labels.jpg")
    fix: str | None = setting(
        None, "--fix", metavar="DIR", bare="", help="write a repaired copy into a new folder, and check that")
    json: bool = setting(False, "--json", help="print JSON, with every fault")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class PreviewConfig(Settings):
    # fmt: off
    data: str = _data_set()
    out: str = setting(REQUIRED, "--out", metavar="FILE", help="the picture to write: preview.jpg")
    img_size: tuple[int, ...] = _image_size()
    hyp: str | None = setting(
        None, "--hyp", metavar="FILE", help="YOLOv7's hyper-parameters, by default those of yolov7-tiny")
    style: Literal["yolov7", "yolox"] = setting("yolov7", "--style", help="default: {default}")
    split: str = setting("train", "--split", help="default: {default}")
    n: int = setting(16, "--n", metavar="N", help="images to draw, default: {default}")
    seed: int = setting(0, "--seed", help="default: {default}")
    epoch: int = setting(0, "--epoch", help="default: {default}")
    skip_bad: bool = _skip_bad()
    # fmt: on


Nms = Literal["none", "onnx", "efficientnms"]
OPSETS = (18, 23)
"""The ONNX operator sets that are written."""


@dataclass(frozen=True, kw_only=True)
class ExportConfig(Settings):
    # fmt: off
    weights: tuple[str, ...] = section.model(
        (), "--weights", published=("yolor-csp-c.pt",), yolov7=True, metavar="FILE", counts=(0, 1),
        help="trained weights; none: best.pt of the latest run")
    cfg: str = section.model(
        "", "--cfg", "--model", metavar="FILE", help="model, for weights that do not hold theirs")
    head_config: str = section.model(
        "", "--head-config", metavar="FILE", help="which head owns which classes (1B4H), or standard …")

    to: str = section.output("onnx", "--to", "--format", among=EXPORT_FORMATS, help="the format")
    out: str | None = section.output(
        None, "--out", metavar="PLACE",
        help="the file, or a folder for the model with labels and a README; by default a file beside the weights")
    force: bool = section.output(False, "--force", published=True, help="replace what is there")

    img_size: tuple[int, ...] | None = section.data(
        None, "--img-size", "--img", "--imgsz", published=(640, 640), yolov7=True, least=32, most=32_768, counts=(1, 2),
        help="pixels of the input, or height and width; by default as in training")
    batch_size: int = section.data(
        1, "--batch-size", "--batch", yolov7=True, least=1, most=4096, help="images per call")
    dynamic: Literal["none", "batch", "all"] = section.data(
        "none", "--dynamic", yolov7=True, bare="all", shortcuts={"--dynamic-batch": "batch"},
        help="what may differ from call to call: the batch, or also height and width, in whole strides")
    with_preprocessing: Literal["none", "bgr", "rgb"] = section.data(
        "none", "--with-preprocessing", bare="bgr",
        help="take one uint8 image [height, width, 3] of any size, colours in this order; boxes are in its pixels")
    data: str = section.data(
        "", "--data", metavar="FILE", help="data set yaml: its val images are what the file is tried on")
    images: int = section.data(16, "--images", least=1, most=100_000, help="images that the file is tried on")

    nms: Nms = section.evaluation(
        "onnx", "--nms", published="none",
        help="suppression inside: none, of ONNX operators, or TensorRT's EfficientNMS_TRT")
    conf_thres: float = section.evaluation(
        0.25, "--conf-thres", "--conf", yolov7=True, least=0, most=1, help="omit detections with a lower score")
    iou_thres: float = section.evaluation(
        0.45, "--iou-thres", "--iou", yolov7=True, least=0, most=1, help="IoU above which a box is suppressed")
    max_det: int = section.evaluation(
        300, "--max-det", "--topk-all", published=100, yolov7="--topk-all", least=1, most=30_000,
        help="detections per image, at most")
    agnostic_nms: bool = section.evaluation(
        False, "--agnostic-nms", help="boxes suppress those of other classes too")
    threshold_inputs: bool = section.evaluation(
        False, "--threshold-inputs", help="conf, iou and max_det are inputs of the file, with these values as defaults")
    end2end: bool = section.evaluation(
        False, "--end2end", yolov7=True,
        help="YOLOv7's outputs num_dets, det_boxes, det_scores, det_classes; with --nms none of EfficientNMS_TRT")
    max_wh: int | None = section.evaluation(
        None, "--max-wh", yolov7=True, least=0, help="YOLOv7's way to say --end2end --nms onnx; 0: --agnostic-nms too")

    precision: Literal["fp32", "fp16"] = section.speed(
        "fp32", "--precision", shortcuts={"--half": "fp16", "--fp16": "fp16"},
        help="number type of the network; inputs, decoding and outputs stay fp32")
    opset: int = section.speed(20, "--opset", least=OPSETS[0], most=OPSETS[1], help="ONNX operator set")
    check: bool = section.evaluation(
        True, "--check", help="run the file on images and compare it with the network before it is kept")

    device: str = section.speed(
        "", "--device", published="cpu", yolov7=True, without_effect=True, help="files are made on the CPU")
    grid: bool = section.data(
        False, "--grid", yolov7=True, without_effect=True, help="boxes are always decoded")
    simplify: bool = section.output(
        False, "--simplify", yolov7=True, without_effect=True, help="what is written has nothing to simplify")
    include_nms: bool = section.evaluation(
        False, "--include-nms", yolov7=True, without_effect=True, help="of CoreML; see --nms")
    int8: bool = section.speed(
        False, "--int8", yolov7=True,
        help="8-bit weights, and inputs of the layers that keep AP: measured on train images of --data")
    search_images: int = section.data(
        128, "--search-images", least=2, most=100_000, help="train images that --int8 measures on")
    # fmt: on

    @property
    def suppression(self) -> Nms:
        """What `--nms`, `--end2end` and `--max-wh` mean together."""
        if self.nms == "none" and self.end2end:
            return "efficientnms" if self.max_wh is None else "onnx"
        return self.nms

    @property
    def agnostic(self) -> bool:
        return self.agnostic_nms or (self.end2end and self.max_wh == 0)

    def check_together(self) -> None:
        if self.int8 and not self.data:
            what = "--int8 measures on labelled train images, but no data set is given"
            raise UserError(what, fix="--data data.yaml")
        if self.int8 and self.precision == "fp16":
            raise UserError("--int8 and --half are both given", fix="omit one of them")
        without = self.suppression == "none"
        if without and (self.threshold_inputs or self.agnostic_nms):
            flag = "--threshold-inputs" if self.threshold_inputs else "--agnostic-nms"
            raise UserError(f"{flag} is about suppression, but --nms is none", fix=f"--nms onnx, or omit {flag}")
        if self.threshold_inputs and self.suppression == "efficientnms":
            what = "--threshold-inputs: EfficientNMS_TRT has its thresholds as constants"
            raise UserError(what, fix="--nms onnx, or omit --threshold-inputs")
        if self.with_preprocessing != "none":
            self._check_preprocessing()

    def _check_preprocessing(self) -> None:
        flag = f"--with-preprocessing {self.with_preprocessing}"
        if self.suppression != "onnx":
            what = f"{flag} gives boxes in the image's own pixels, but --nms is {self.suppression}"
            raise UserError(what, fix="--nms onnx, or omit --with-preprocessing")
        if self.dynamic != "none" or self.batch_size != 1:
            given = f"--dynamic {self.dynamic}" if self.dynamic != "none" else f"--batch-size {self.batch_size}"
            what = f"{flag} takes one image of any size, but {given} is given"
            raise UserError(what, fix=f"omit {given}, or --with-preprocessing")
