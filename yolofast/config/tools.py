"""The settings of the commands around training that read a network or a data set."""

from dataclasses import dataclass
from functools import partial
from typing import Literal

from yolofast.config.settings import REQUIRED, Settings, setting

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
    verify: bool = setting(False, "--verify", help="read everything back and compare the checksums")
    skip_bad: bool = _skip_bad()
    workers: int | None = setting(None, "--workers", least=1, metavar="N", help="threads, by default one per core")
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
        None, "--fix", metavar="DIR", help="write a repaired copy into a new folder, and check that")
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
