"""The settings of detecting objects in images, videos and streams."""

from dataclasses import dataclass

from yolofast.config import section
from yolofast.config.common import RunConfig


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
