"""The settings of `tracksweep`, which searches tracker settings and checkpoints."""

from dataclasses import dataclass
from typing import Literal

from yolofast.config.settings import Settings, setting
from yolofast.errors import UserError


@dataclass(frozen=True, kw_only=True)
class TracksweepConfig(Settings):
    # fmt: off
    detections: str | None = setting(
        None, "--detections", metavar="DIR", 
        help="stored detections: .npz of predict --save-detections, SEQ/det/det.txt")
    truth: str | None = setting(
        None, "--truth", "--gt", metavar="DIR", help="MOTChallenge folders, or a folder of SEQ.txt")
    data: str | None = setting(
        None, "--data", metavar="FILE", help="sequences.yaml, in place of --truth")
    weights: tuple[str, ...] | None = setting(
        None, "--weights", metavar="FILE", help="which of these checkpoints tracks best: detections are made and kept")
    tracker: tuple[str, ...] = setting(
        (), "--tracker", metavar="NAME", counts=(0, 100),
        help="bytetrack, botsort, ocsort, boosttrack, boosttrack++; several are compared")
    values: tuple[str, ...] = setting(
        (), "--set", metavar="NAME=VALUES", adds_up=True, counts=(0, 1000),
        help="match_thresh=0.7,0.8,0.9 or conf=0.1:0.6:0.1; conf and nms are the detector's; default: a usual grid")
    settings: str | None = setting(
        None, "--settings", metavar="FILE", help="the same as YAML: match_thresh: [0.7, 0.8]")
    random: int | None = setting(
        None, "--random", least=1, most=1_000_000, metavar="N",
        help="draw so many settings, instead of all combinations")
    seed: int = setting(0, "--seed", least=0, most=2**32 - 1, metavar="N", help="of --random, default: {default}")
    by: Literal[
        "HOTA", "DetA", "AssA", "MOTA", "MOTP", "IDF1", "IDP", "IDR", "IDSW", "FP", "FN", "Frag", "MT", "ML",
    ] = setting(
        "HOTA", "--by", help="what the best setting is chosen by, default: {default}")
    benchmark: Literal["none", "mot15", "mot17", "mot20"] = setting(
        "none", "--benchmark", help="which boxes count; mot17 and mot20: pedestrians, without distractors")
    sequences: tuple[str, ...] | None = setting(
        None, "--sequences", metavar="NAME", help="those to use; by default all that have truth")
    classes: tuple[int | str, ...] | None = setting(
        None, "--classes", metavar="N", help="use only detections of these classes, by number or name")
    faithful: bool = setting(False, "--faithful", help="trackers as published, defects included")
    skip_bad: bool = setting(False, "--skip-bad", help="omit rows with faults, instead of stopping")
    workers: int | None = setting(
        None, "--workers", least=1, most=1024, metavar="N", help="processes, by default one for each core")
    output: str = setting(
        "runs/tracksweep", "--output", metavar="DIR", help="results; a search continues there, default: {default}")
    html: str | None = setting(
        None, "--html", bare="tracksweep.html", metavar="FILE", help="a page; without FILE tracksweep.html")
    img_size: int | None = setting(
        None, "--img-size", "--imgsz", least=32, most=32_768, metavar="N",
        help="for --weights: long side, default: as trained")
    cfg: str = setting("", "--cfg", metavar="FILE", help="for --weights that do not hold their network")
    batch_size: int = setting(
        16, "--batch-size", "--batch", least=1, most=4096, metavar="N",
        help="for --weights: images at once, default: {default}")
    device: str = setting("", "--device", help="for --weights: cpu, 0, …; by default a GPU if there is one")
    # fmt: on

    def check_together(self) -> None:
        if (self.truth is None) == (self.data is None):
            what = "neither --truth nor --data is given" if self.truth is None else "--truth and --data are both given"
            raise UserError(what, fix="give one of them: folders with truth, or a sequences.yaml")
        if self.weights is not None and self.detections is not None:
            raise UserError("--weights and --detections are both given", fix="give one: weights make the detections")
