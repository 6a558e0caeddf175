"""The settings of the commands about sequences on disk: how good tracks are, settings searched;
and of `convert`, which reads labelled images and nuScenes too."""

from dataclasses import dataclass
from typing import Literal

from yolofast.config.settings import REQUIRED, Settings, setting, settings_of
from yolofast.errors import UserError
from yolofast.extensions import FORMATS

_FROM = {"auto": None, **FORMATS}
_TO = {name: entry for name, entry in FORMATS.items() if entry.written}
_OF = {
    "images": ("source", "to", "names", "split", "map", "drop", "group", "seed", "images", "copy"),
    "sequences": ("source", "to", "kind", "names"),
    "tables": (
        "root", "version", "cameras", "frames", "classes", "split", "split_file", "min_visibility", "max_occlusion",
        "min_size",
    ),
}  # fmt: skip
_ALL = ("source_format", "out", "skip_bad")


@dataclass(frozen=True, kw_only=True)
class TrackvalConfig(Settings):
    # fmt: off
    truth: str = setting(
        REQUIRED, "--truth", "--gt", metavar="DIR",
        help="MOTChallenge folders, a folder of SEQ.txt, one file, or JSON with videos")
    results: str = setting(
        REQUIRED, "--results", metavar="DIR", help="results of a tracker: a folder of SEQ.txt, one file, or JSON")
    benchmark: Literal["none", "mot15", "mot17", "mot20"] = setting(
        "none", "--benchmark", help="which boxes count; mot17 and mot20: pedestrians, without distractors")
    classes: tuple[int | str, ...] | None = setting(
        None, "--classes", metavar="N",
        help="score these classes one by one too: numbers (column 8), names (of the truth, or --names), or all")
    names: tuple[str, ...] = setting(
        (), "--names", metavar="NAME", counts=(0, 10_000),
        help="of the classes: of those that occur, in the order of their numbers, or of all from the first on")
    sequences: tuple[str, ...] | None = setting(
        None, "--sequences", metavar="NAME", help="those to score, or a seqmap file; by default all of the truth")
    skip_bad: bool = setting(False, "--skip-bad", help="omit rows with faults, instead of stopping")
    json: str | None = setting(
        None, "--json", bare="-", metavar="FILE", help="all figures and events as JSON; without FILE printed")
    html: str | None = setting(
        None, "--html", bare="trackval.html", metavar="FILE", help="a page; without FILE trackval.html")
    images: str | None = setting(
        None, "--images", metavar="DIR", help="for pictures on the page: SEQ/img1/000001.jpg …")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class ConvertConfig(Settings):
    # fmt: off
    source: str | None = setting(
        None, "source", metavar="SOURCE", help="folder, zip or file of labelled images, or of sequences")
    source_format: str = setting(
        "auto", "--from", among=_FROM, help="form of the source; auto: by its content, but for nuscenes")
    to: str | None = setting(
        None, "--to", among=_TO, help="form to write: yolo (default) or coco of images, the others of sequences")
    out: str = setting(
        REQUIRED, "--out", metavar="PLACE", help="new folder; of coco-video and tao a file that ends in .json")
    skip_bad: bool = setting(False, "--skip-bad", help="omit images or rows with faults, instead of stopping")
    names: tuple[str, ...] = setting(
        (), "--names", metavar="NAME", counts=(0, 10_000),
        help="images: these classes in this order; sequences: of those that occur by number, or all from the first on")
    map: tuple[str, ...] = setting(
        (), "--map", metavar="OLD=NEW", adds_up=True, counts=(0, 10_000),
        help="images: other names of classes, several may become one; OLD= leaves it out; or a YAML file")
    drop: tuple[str, ...] = setting(
        (), "--drop", metavar="MARK", counts=(0, 10),
        help="images: omit objects marked difficult, truncated, occluded, crowd or depiction")
    split: tuple[str, ...] = setting(
        (), "--split", metavar="NAME", counts=(0, 100),
        help="images: train=0.8 val=0.2, or train=FILE val=FILE; default as in the source; nuscenes: official ones, or "
             "those of --split-file; default train and val")
    group: str = setting(
        "auto", "--group", metavar="BY",
        help="images: what --split keeps together: none, video (names without their number), folder, or a regular "
             "expression; auto: what the source calls a video, and copies of Roboflow")
    seed: int = setting(
        0, "--seed", least=0, most=2**32 - 1, metavar="N", help="images: of --split, default: {default}")
    images: str | None = setting(
        None, "--images", metavar="DIR", help="images: where they are, if not near their labels")
    copy: bool = setting(False, "--copy", help="images: copy the files, instead of linking to them")
    kind: Literal["truth", "results", "detections"] = setting(
        "truth", "--kind", help="sequences: what the source holds")
    root: str | None = setting(
        None, "--root", metavar="DIR", help="nuscenes: folder with samples, sweeps and the version's tables")
    version: str = setting("v1.0-trainval", "--version", metavar="NAME", help="nuscenes: folder of the tables")
    cameras: tuple[str, ...] = setting(
        (), "--cameras", metavar="CAM", counts=(0, 100), help="nuscenes: such as CAM_FRONT; by default all")
    frames: Literal["key", "sweeps"] = setting(
        "key", "--frames", help="nuscenes: key frames at 2 Hz, or also the sweeps between, with interpolated boxes")
    classes: tuple[str, ...] = setting(
        ("tracking7",), "--classes", metavar="CLASS",
        help="nuscenes: tracking7, detection10, names of their classes, or all categories as they are called")
    split_file: str | None = setting(
        None, "--split-file", metavar="FILE", help="nuscenes: YAML or JSON with a list of scenes for each split")
    min_visibility: int = setting(
        1, "--min-visibility", least=1, most=4, metavar="N",
        help="nuscenes: omit boxes of a lower level; 2: at least 40 % visible, 3: 60 %, 4: 80 %")
    max_occlusion: float = setting(
        1.0, "--max-occlusion", least=0, most=1, metavar="X",
        help="nuscenes: omit boxes of which nearer ones cover a larger share, by estimate")
    min_size: float = setting(
        2.0, "--min-size", least=0, most=10_000, metavar="PIXELS", help="nuscenes: omit boxes with a shorter side")
    # fmt: on

    def check_together(self) -> None:
        needed = ("root", "--root DIR") if self.source_format == "nuscenes" else ("source", "SOURCE")
        if getattr(self, needed[0]) is None:
            fix = "give the folder of samples and tables" if needed[0] == "root" else "give a folder, a zip or a file"
            raise UserError(f"convert needs {needed[1]}", fix=fix)
        if self.source_format != "auto":
            self.refuse_others(FORMATS[self.source_format].holds)
        elif self.to is not None:
            self.refuse_others(FORMATS[self.to].holds)

    def refuse_others(self, holds: str) -> None:
        """Flags that mean nothing for such a source."""
        if self.to is not None and FORMATS[self.to].holds != holds:
            able = [name for name, entry in FORMATS.items() if entry.written and entry.holds == holds]
            fix = f"give one of {', '.join(able)}" if able else "omit it: all its forms are written"
            raise UserError(f"--to is {self.to}, which {holds} are not converted to", fix=fix)
        for name, declared in settings_of(type(self)).items():
            if name not in (*_ALL, *_OF[holds]) and getattr(self, name) != getattr(type(self), name):
                whose = " or ".join(one for one, names in _OF.items() if name in names)
                raise UserError(f"{declared.flag} is not for {holds}, but for {whose}", fix="omit it, or see --from")


@dataclass(frozen=True, kw_only=True)
class TracksweepConfig(Settings):
    # fmt: off
    detections: str | None = setting(
        None, "--detections", metavar="DIR", 
        help="stored detections: .npz of predict --save-detections, SEQ/det/det.txt")
    score_range: tuple[float, ...] | None = setting(
        None, "--score-range", metavar="SCORE", least=-1e9, most=1e9, counts=(2, 2),
        help="for detections with other scores than 0 to 1: their lowest and highest, such as 0 100")
    truth: str | None = setting(
        None, "--truth", "--gt", metavar="DIR", help="MOTChallenge folders, or a folder of SEQ.txt")
    data: str | None = setting(
        None, "--data", metavar="FILE", help="sequences.yaml, in place of --truth")
    weights: tuple[str, ...] | None = setting(
        None, "--weights", metavar="FILE", help="which of these checkpoints tracks best: detections are made and kept")
    tracker: tuple[str, ...] = setting(
        (), "--tracker", metavar="NAME", counts=(0, 100),
        help="bytetrack, botsort, ocsort, boosttrack, boosttrack++; several are compared; default: botsort")
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
