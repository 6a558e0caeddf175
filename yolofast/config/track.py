"""The settings of tracking objects in videos and streams, or from stored detections."""

from dataclasses import dataclass
from typing import Literal

from yolofast.config import section
from yolofast.config.common import RunConfig
from yolofast.errors import UserError

USUAL_TRACKER = "botsort"
"""Of `track`, `Detector.track` and `tracksweep`."""


@dataclass(frozen=True, kw_only=True)
class TrackConfig(RunConfig):
    # fmt: off
    weights: tuple[str, ...] = section.model(
        (), "--weights", metavar="FILE", counts=(0, 100),
        help="trained weights; several form an ensemble; none: best.pt of the latest run")
    device: str = section.speed("", "--device", help="0, or cpu; empty: the first GPU")
    cfg: str = section.model(
        "", "--cfg", "--model", metavar="FILE", help="model, for weights that do not hold theirs")

    source: tuple[str, ...] = section.data(
        (), "--source", metavar="SOURCE", counts=(0, 1000),
        help="video, folder of images, stream, number of a camera; several are tracked apart, at the same time")
    detections: str | None = section.data(
        None, "--detections", metavar="FILE",
        help="instead of a network: .npz of predict --save-detections, det.txt, COCO results, or a folder of these")
    images: str | None = section.data(
        None, "--images", metavar="FILE", help="for COCO results: the COCO file whose images say which frames they are")
    img_size: tuple[int, ...] | None = section.data(
        None, "--img-size", "--img", "--imgsz", least=32, most=32_768, counts=(1, 2),
        help="pixels of the long side, for YOLOX also height and width; by default as in training, else 640")
    batch_size: int = section.data(16, "--batch-size", "--batch", least=1, help="frames at once")
    vid_stride: int = section.data(
        1, "--vid-stride", least=1, help="use every N-th frame; numbers and times stay those of the video")
    score_range: tuple[float, ...] | None = section.data(
        None, "--score-range", metavar="SCORE", least=-1e9, most=1e9, counts=(2, 2),
        help="for --detections with other scores than 0 to 1: their lowest and highest, such as 0 100")
    frame_rate: float | None = section.data(
        None, "--frame-rate", "--fps", above=0, most=10_000,
        help="frames per second of folders of images or stored detections; by default what they state, else 30")

    tracker: str = section.tracking(
        USUAL_TRACKER, "--tracker", metavar="NAME", help="botsort, bytetrack, ocsort, boosttrack or boosttrack++")
    track: tuple[str, ...] = section.tracking(
        (), "--track", metavar="KEY=VALUE", counts=(0, 100), adds_up=True,
        help="settings of the tracker by their published names: track_buffer=60 match_thresh=0.8")
    class_handling: Literal["vote", "each", "agnostic"] = section.tracking(
        "vote", "--class-handling",
        help="vote: scores decide a track's class; each: classes are tracked apart; agnostic: the last one seen")
    faithful: bool = section.tracking(
        False, "--faithful", help="compute what the published code computes, its defects included")
    reid: str | None = section.tracking(
        None, "--reid", metavar="FILE",
        help="ONNX network that tells how things look; with_reid=true without it uses the detector's own features")
    warps: str | None = section.tracking(
        None, "--warps", metavar="FILE",
        help="the camera's recorded motion, frame,a,b,tx,c,d,ty on each line; without it images show it")
    explain: int | None = section.tracking(
        None, "--explain", metavar="FRAME", least=1,
        help="say why each detection and track of this frame was matched or dropped, and end")

    conf_thres: float | None = section.evaluation(
        None, "--conf-thres", "--conf", least=0, most=1,
        help="omit detections with a lower score; by default 0.01, or all that are stored")
    iou_thres: float | None = section.evaluation(
        None, "--iou-thres", "--iou", least=0, most=1,
        help="IoU above which a box is suppressed; by default 0.7; --detections from elsewhere stay as they are")
    max_det: int | None = section.evaluation(
        None, "--max-det", least=1, most=30_000,
        help="detections per image, at most; by default 300; --detections from elsewhere are not cut")
    classes: tuple[int | str, ...] = section.evaluation(
        (), "--classes", metavar="CLASS", least=0, counts=(0, 100_000), help="only these classes, by number or name")
    augment: bool = section.evaluation(False, "--augment", help="test-time augmentation: several sizes, one mirrored")
    skip_bad: bool = section.evaluation(False, "--skip-bad", help="omit stored detections with faults, and say so")

    line: tuple[str, ...] = section.output(
        (), "--line", metavar="X1,Y1,X2,Y2", counts=(0, 100), adds_up=True,
        help="count who crosses it; pixels, or shares of the image; NAME=x1,y1,x2,y2 names it")
    zone: tuple[str, ...] = section.output(
        (), "--zone", metavar="X1,Y1,…", counts=(0, 100), adds_up=True,
        help="count who is inside: three or more corners; NAME=… names it")
    count_at: Literal["centre", "bottom"] = section.output(
        "centre", "--count-at", help="the point of a box that lines, zones and trails go by")
    project: str = section.output("runs/track", "--project", metavar="FOLDER", help="folder of runs")
    nosave: bool = section.output(False, "--nosave", help="save no video, only results")
    view_img: bool = section.output(False, "--view-img", "--show", help="show each frame in a window")
    show_lost: bool = section.output(
        False, "--show-lost", help="draw where tracks are believed to be while the detector misses them")
    trail: int = section.output(30, "--trail", least=0, most=10_000, help="frames that a trail is long")
    line_width: int | None = section.output(
        None, "--line-width", least=1, most=1000, help="of the boxes; by default as suits the image")
    save_detections: bool = section.output(
        False, "--save-detections", help="keep the network's detections too, to try other trackers without it")
    json: bool = section.output(False, "--json", help="with --explain: print JSON")
    # fmt: on

    def check_together(self) -> None:
        super().check_together()
        if not self.source and self.detections is None:
            raise UserError("nothing to track is given", fix="give --source, or --detections of an earlier run")
        if self.detections is not None and len(self.source) > 1:
            raise UserError("--detections go with one --source at most", fix="name the video they were made of")
        if self.warps is not None and len(self.source) > 1:
            raise UserError("--warps are those of one video", fix="track the others by themselves")
        if self.reid is not None and self.detections is not None:
            raise UserError("--reid needs images, --detections have none", fix="store features with them")
        for flag, given in {"--images": self.images, "--score-range": self.score_range}.items():
            if given is not None and self.detections is None:
                raise UserError(f"{flag} is for stored detections", fix="add --detections")
        of_network = {
            "--weights": self.weights, "--cfg": self.cfg, "--head-config": self.head_config, "--img": self.img_size,
            "--augment": self.augment,
        }  # fmt: skip
        for flag, is_given in of_network.items():
            if is_given and self.detections is not None:
                what = f"{flag} is the network's, but --detections take its place"
                raise UserError(what, fix="leave one of them out")
        if self.json and self.explain is None:
            raise UserError("--json is for --explain", fix="without it, results are written as JSON in any case")
