"""The settings of detecting objects: in images, videos and streams; by each format; as a service; to be evaluated."""

from dataclasses import dataclass
from typing import Literal

from yolofast.config import section
from yolofast.config.common import Cache, RunConfig
from yolofast.config.settings import Settings
from yolofast.errors import UserError
from yolofast.extensions import RUNTIMES


# ruff: noqa: RUF009 - `section` makes dataclass fields
@dataclass(frozen=True, kw_only=True)
class PredictConfig(RunConfig):
    # fmt: off
    weights: tuple[str, ...] = section.model(
        (), "--weights", published=("yolov7.pt",), yolov7=True, metavar="FILE", counts=(0, 100),
        help="trained weights; several form an ensemble; none: best.pt of the latest run")
    device: str = section.speed("", "--device", yolov7=True, help="0, or cpu; empty: the first GPU")
    cfg: str = section.model(
        "", "--cfg", "--model", metavar="FILE", help="model, for weights that do not hold theirs")

    source: str = section.data(
        "", "--source", published="inference/images", yolov7=True,
        help="file, folder, glob, video, stream, number of a camera, or - for names on standard input")
    img_size: tuple[int, ...] | None = section.data(
        None, "--img-size", "--img", "--imgsz", published=(640,), yolov7=True, least=32, most=32_768, counts=(1, 2),
        help="pixels of the long side, for YOLOX also height and width; by default as in training, else 640")
    batch_size: int = section.data(
        16, "--batch-size", "--batch", published=1, least=1, help="images of a folder, or frames of a video, at once")
    vid_stride: int = section.data(
        1, "--vid-stride", least=1, help="use every N-th frame of a video, or image of a folder; numbers stay")

    conf_thres: float = section.evaluation(
        0.25, "--conf-thres", "--conf", yolov7=True, least=0, most=1, help="omit detections with a lower score")
    iou_thres: float = section.evaluation(
        0.45, "--iou-thres", "--iou", yolov7=True, least=0, most=1, help="IoU above which a box is suppressed")
    max_det: int = section.evaluation(300, "--max-det", least=1, most=30_000, help="detections per image, at most")
    classes: tuple[int | str, ...] = section.evaluation(
        (), "--classes", yolov7=True, metavar="CLASS", least=0, counts=(0, 100_000),
        help="only these classes, by number or name")
    agnostic_nms: bool = section.evaluation(
        False, "--agnostic-nms", yolov7=True, help="one object has one class: overlaps count across classes")
    augment: bool = section.evaluation(
        False, "--augment", yolov7=True, help="test-time augmentation: several sizes, one mirrored")
    no_trace: bool = section.evaluation(
        False, "--no-trace", yolov7=True, without_effect=True, help="nothing is ever traced here")
    update: bool = section.evaluation(
        False, "--update", yolov7=True, without_effect=True, help="weights are read as they are and need no update")

    project: str = section.output(
        "runs/predict", "--project", published="runs/detect", yolov7=True, metavar="FOLDER", help="folder of runs")
    view_img: bool = section.output(False, "--view-img", "--show", yolov7=True, help="show each image in a window")
    nosave: bool = section.output(False, "--nosave", yolov7=True, help="save no drawn images or videos")
    save_txt: bool = section.output(False, "--save-txt", yolov7=True, help="detections as label files")
    save_conf: bool = section.output(False, "--save-conf", yolov7=True, help="with the score as last column")
    save_json: bool = section.output(False, "--save-json", help="detections of all images as one JSON file")
    save_coco: bool = section.output(False, "--save-coco", help="detections of all images as a COCO results file")
    save_detections: bool = section.output(
        False, "--save-detections",
        help="a file per video for track: all from a score of 0.01, suppressed at an IoU of 0.7 or --iou if higher")
    save_crop: bool = section.output(False, "--save-crop", help="save every object as an image of its own")
    line_width: int | None = section.output(
        None, "--line-width", least=1, most=1000, help="of the boxes; by default as suits the image")
    # fmt: on


_NATIVE = "pytorch"


@dataclass(frozen=True, kw_only=True)
class BenchmarkConfig(Settings):
    # fmt: off
    weights: tuple[str, ...] = section.model(
        (), "--weights", metavar="FILE", counts=(0, 20),
        help="trained weights, and exported files to compare with them; none: best.pt of the latest run")
    cfg: str = section.model(
        "", "--cfg", "--model", metavar="FILE", help="model, for weights that do not hold theirs")
    formats: tuple[str, ...] = section.model(
        (), "--formats", metavar="NAME", counts=(0, 20),
        help=f"what the weights are exported to, of {', '.join((_NATIVE, *RUNTIMES))}; default: all that run here")

    data: str = section.data(
        "", "--data", metavar="FILE", help="data set yaml: AP on its val split; its images are timed")
    fraction: float = section.data(1.0, "--fraction", above=0, most=1, help="share of the val split for AP")
    img_size: tuple[int, ...] | None = section.data(
        None, "--img-size", "--img", "--imgsz", least=32, most=32_768, counts=(1, 2),
        help="pixels of the input, or height and width; by default as in training")
    batch_size: int = section.data(
        8, "--batch-size", "--batch", least=1, most=1024, help="images at once, for throughput")

    rounds: int = section.speed(20, "--rounds", least=1, most=100_000, help="each times all formats in turn")
    calls: int = section.speed(10, "--calls", least=1, most=10_000, help="single images per format and round")
    memory: bool = section.speed(True, "--memory", help="measure memory, in a process for each format")
    device: str = section.speed("", "--device", help="0, or cpu; empty: the first GPU")

    project: str = section.output("runs/benchmark", "--project", metavar="FOLDER", help="folder of runs")
    name: str = section.output("exp", "--name", help="folder below --project; numbered if it exists")
    exist_ok: bool = section.output(False, "--exist-ok", help="use the folder if it exists")
    # fmt: on

    def check_together(self) -> None:
        known = (_NATIVE, *RUNTIMES)
        for one in self.formats:
            if one not in known:
                raise UserError(f"--formats has {one}, which does not run here", fix=f"of {', '.join(known)}")
        if len(set(self.formats)) < len(self.formats):
            raise UserError("--formats names one twice", fix="name each once")


@dataclass(frozen=True, kw_only=True)
class ServeConfig(Settings):
    # fmt: off
    weights: tuple[str, ...] = section.model(
        (), "--weights", metavar="FILE", counts=(0, 1),
        help="an exported file, its folder, or trained weights; none: best.pt of the latest run")
    cfg: str = section.model(
        "", "--cfg", "--model", metavar="FILE", help="model, for weights that do not hold theirs")
    img_size: tuple[int, ...] | None = section.data(
        None, "--img-size", "--img", "--imgsz", least=32, most=32_768, counts=(1, 2),
        help="pixels of the long side, or height and width; by default as in training or in the file")
    conf_thres: float = section.evaluation(
        0.25, "--conf-thres", "--conf", least=0, most=1, help="omit detections with a lower score")
    iou_thres: float = section.evaluation(
        0.45, "--iou-thres", "--iou", least=0, most=1, help="IoU above which a box is suppressed")
    max_det: int = section.evaluation(300, "--max-det", least=1, most=30_000, help="detections per image, at most")

    batch_size: int = section.speed(
        8, "--batch-size", "--batch", least=1, most=1024, help="images of several requests that are detected at once")
    batch_wait: float = section.speed(
        0.0, "--batch-wait", least=0, most=1000, help="milliseconds a lone image waits for company")
    device: str = section.speed("", "--device", help="0, or cpu; empty: the first GPU")

    host: str = section.output("127.0.0.1", "--host", help="any other needs a token")
    port: int = section.output(8500, "--port", least=0, most=65_535, help="0 takes a free one")
    token: str | None = section.output(
        None, "--token", help="what requests must say; made up where it is needed and not given. YOLOFAST_TOKEN too")
    max_mb: float = section.output(10.0, "--max-mb", above=0, most=1000, help="megabytes of an upload, at most")
    max_megapixels: float = section.output(
        25.0, "--max-megapixels", above=0, most=10_000, help="of an image, once decoded, at most")
    queue: int = section.output(
        128, "--queue", least=1, most=100_000, help="images that may wait; further requests are told to come back")
    timeout: float = section.output(
        30.0, "--timeout", above=0, most=3600, help="seconds for a request, upload and waiting included")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class ValConfig(RunConfig):
    """Without `--img-size` a network is evaluated at the size it was trained for."""

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
