"""`Detector`: all of yolofast in one object. The settings are those of the commands, the results are values."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yolofast.api.python_names import items_in_python, method_in_python, refuse_unknown, spoken_in_python
from yolofast.config.flags import from_settings, resolve
from yolofast.config.hyp import with_set_values
from yolofast.config.predict import ValConfig
from yolofast.config.track import USUAL_TRACKER
from yolofast.config.train import TrainConfig
from yolofast.detect.detector import DetectionFilter, FrameDetections, Gear, ImageDetector, checked_size, raise_fault
from yolofast.detect.networks import read_all_trained
from yolofast.detect.validation import Validation, open_subject, validate
from yolofast.errors import UserError
from yolofast.media.streams import OnFault
from yolofast.model.graph import family_named
from yolofast.model.summary import network_name
from yolofast.precision import Name
from yolofast.runs.folder import new_run_folder
from yolofast.runs.layout import FILES, MAP, MAP50
from yolofast.runs.reader import RunFolder
from yolofast.track.choices import check_warps, eye_of, tracker_maker, tracking_filter
from yolofast.track.formats.detections import USUAL_RATE
from yolofast.track.formats.warps import read_warps
from yolofast.track.pipeline import (
    Follower,
    StageTimes,
    TrackedFrame,
    detected,
    tracked_frames,
)
from yolofast.track.timeline import open_sources
from yolofast.words import counted, own_command

if TYPE_CHECKING:
    from yolofast.train.guard import OnEpoch

__all__ = ["Detector", "TrackedFrame", "TrainedRun", "Validation", "train"]


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    folder: Path
    """Its checkpoints, pictures and `results.csv`."""
    map50: float
    """Of the best epoch."""
    map: float
    """mAP50-95 of the best epoch."""
    detector: "Detector"
    """With the weights of the best epoch."""


_SIZE = {"img": "size", "img_size": "size", "imgsz": "size"}
_CALLED = {**_SIZE, "conf_thres": "conf", "iou_thres": "iou", "max_det": "most", "agnostic_nms": "agnostic"}


class Detector(ImageDetector):
    """`Detector("best.pt").predict("street.jpg")`.

    Several weights form an ensemble. `cfg` names the network for weights that do not hold theirs. `size` is the long
    side pictures are resized to, for YOLOX also height and width, by default as in training. Without weights `cfg`
    names a network to be trained: `Detector(cfg="yolov7-tiny").train("data.yaml")`. `gear="graph"` captures
    detection on a GPU as one graph.
    """

    @method_in_python(**_SIZE)
    def __init__(
        self,
        weights: str | Path | Sequence[str | Path] | None = None,
        *,
        cfg: str | Path | None = None,
        size: int | Sequence[int] | None = None,
        device: str | int = "",
        precision: Name = "auto",
        head_config: str | Path | None = None,
        gear: Gear = "eager",
    ) -> None:
        named = None if cfg is None else str(cfg)
        if weights is None and named is None:
            what = "neither weights nor a network are given"
            raise UserError(what, fix='Detector("best.pt"), or Detector(cfg="yolov7-tiny") for one to be trained')
        self.head_config, self._own_size = None if head_config is None else str(head_config), size is not None
        if weights is not None:
            super().__init__(
                weights, cfg=named, size=size, device=str(device), precision=precision, head_config=self.head_config,
                gear=gear,
            )  # fmt: skip
            return
        family_named(str(named))  # a name that means nothing is refused at once
        self.weights, self.names, self.cfg, self.device = (), (), named, str(device)
        if size is not None:
            sides = checked_size(size)
            self.shape = sides[0], sides[-1]

    def __repr__(self) -> str:
        if not self.weights:
            return f"<Detector {self.cfg}, to be trained>"
        name = network_name(self.predictor.models[0].graph_yaml) or self.cfg or "a network of its own"
        height, width = self.shape
        pixels = str(width) if width == height else f"{height}×{width}"
        classes = counted(len(self.names), "class")
        return f"<Detector {', '.join(self.weights)}: {name}, {classes}, {pixels} pixels, {self.precision.device}>"

    def __getattr__(self, name: str) -> Any:
        """Of a network that was only named there is nothing yet to detect with."""
        if name in ("predictor", "precision", "shape"):
            what = f"this detector has no weights: {self.cfg} was only named"
            raise UserError(what, fix='train it, and take the result: detector.train("data.yaml").detector')
        raise AttributeError(f"a Detector has no {name!r}")

    predict = spoken_in_python(ImageDetector.predict, _CALLED)
    __call__ = predict

    @method_in_python(**_CALLED)
    def stream(
        self, source: str | Path, *, batch: int = 16, every: int = 1, on_fault: OnFault | None = None, **settings: Any
    ) -> Iterator[FrameDetections]:
        """The frames of a source one by one with their detections, while a thread reads those that follow.

        `settings` are those of `predict`; `every` N uses every N-th frame of a video or image of a folder, and their
        numbers stay. What is wrong with one file or stream of several goes to `on_fault`, and the others continue;
        without it, it is raised.
        """
        refuse_unknown(settings, [field.name for field in dataclasses.fields(DetectionFilter)], _CALLED)
        seen = super().stream(source, batch=batch, every=every, on_fault=on_fault, **settings)
        return items_in_python(seen, _CALLED)

    @method_in_python()
    def train(self, data: str | Path, *, on_epoch: "OnEpoch | None" = None, **settings: Any) -> TrainedRun:
        """Trains this network further on a data set, or from zero if it has no weights, in a run folder of its own.

        This detector stays as it is. `settings` are the flags of `yolofast train` and hyper-parameters: `epochs=10,
        batch_size=32, lr0=0.001`. `on_epoch` gets what `results.csv` says of each epoch, by column, and returns True to
        stop the run.
        """
        if len(self.weights) > 1:
            raise UserError(f"{len(self.weights)} networks cannot be trained together", fix="train one of them")
        own: dict[str, Any] = {
            "weights": "".join(self.weights),
            "cfg": self.cfg or "",
            "data": data,
            "device": self.device,
        }
        own |= {"img_size": _size_setting(self)} if self.weights or self._own_size else {}
        own |= {"head_config": self.head_config} if self.head_config else {}
        _refuse_own(settings, "weights", "cfg", "model", "data", "resume", "explain")
        return _trained(own, settings, on_epoch)

    @method_in_python(**_CALLED)
    def track(
        self,
        source: str | Path | Sequence[str | Path],
        tracker: str = USUAL_TRACKER,
        *,
        batch: int = 16,
        every: int = 1,
        frame_rate: float | None = None,
        class_handling: str = "vote",
        faithful: bool = False,
        reid: str | Path | None = None,
        warps: str | Path | None = None,
        on_fault: OnFault | None = None,
        **settings: Any,
    ) -> Iterator[TrackedFrame]:
        """The frames of videos, folders of images, streams or cameras with their tracks.

        Several sources are seen by the network together and tracked apart. `settings` are those of `predict` and, by
        their published names, those of the tracker; `with_reid=True` looks at appearance by the detector's own neck, or
        by the ONNX network `reid`. `warps` is a file of the camera's recorded motion. `frame_rate` is that of folders
        of images; `every` N uses every N-th frame, and numbers and times stay those of the video.
        """
        names = {field.name for field in dataclasses.fields(DetectionFilter)}
        own = {name: settings.pop(name) for name in names & settings.keys()}
        chosen = tracking_filter(class_handling, own)
        how: dict[str, Any] = {"faithful": faithful, "class_handling": class_handling, "settings": settings}
        make = tracker_maker(tracker, **how, reid=reid is not None, warps=warps is not None)
        check_warps(make(USUAL_RATE), warps is not None)
        sources = list(source) if isinstance(source, list | tuple) else [source]
        if warps is not None and len(sources) > 1:
            raise UserError("warps are those of one video", fix="track the others by themselves")
        recorded = None if warps is None else read_warps(warps)
        see = eye_of(self, chosen, make(USUAL_RATE), reid)
        opened = open_sources(sources, batch, every=every, frame_rate=frame_rate, on_fault=on_fault or raise_fault)
        times = StageTimes()
        seen = detected(see, opened.batches, opened.timeline, times)
        follower = Follower(make, times, several=len(sources) > 1, warps=recorded)
        return items_in_python(tracked_frames(follower.follow(seen), self.names), _CALLED)

    @method_in_python()
    def val(self, data: str | Path, **settings: Any) -> Validation:
        """How good it is on a data set; `settings` are the flags of `yolofast val`."""
        if not self.weights:
            raise UserError("this detector has no weights to evaluate", fix="train it first")
        base = from_settings(
            ValConfig, {"weights": self.weights, "data": data, "img_size": _size_setting(self), "device": self.device}
        )
        _refuse_own(settings, "weights", "cfg", "model", "data")
        config = from_settings(ValConfig, settings, base)
        if config.task in ("speed", "study"):
            raise UserError(f"task is {config.task}", fix=f"use the command: {own_command()} val --task {config.task}")
        trained = read_all_trained(self.weights, self.cfg, config.head_config or None, config.device)
        subject = open_subject(config, trained, lambda text: None)
        return validate(subject, new_run_folder(config.project, config.name, config.exist_ok))


def train(*, on_epoch: "OnEpoch | None" = None, **settings: Any) -> TrainedRun:
    """Trains a network from the flags of `yolofast train`, resumed runs too, and hyper-parameters.

    `yolofast.train(data="data.yaml", cfg="yolov7-tiny", epochs=10, lr0=0.001)`. `on_epoch` is as for `Detector.train`.
    """
    _refuse_own(settings, "explain", "against")
    return _trained({}, settings, on_epoch)


def _trained(own: Mapping[str, Any], settings: Mapping[str, Any], on_epoch: "OnEpoch | None") -> TrainedRun:
    from yolofast.train.session import train  # takes a second, which prediction does not need

    settings = with_set_values(settings)
    config = from_settings(TrainConfig, settings, from_settings(TrainConfig, own))
    given = [*own, *(resolve(TrainConfig, key, value)[0] for key, value in settings.items())]
    folder = train(config, {name: getattr(config, name) for name in given}, on_epoch)
    run = RunFolder(folder)
    best = run.best_row()
    map50, map50_95 = (0.0 if best is None else float(run.column(one.name)[best]) for one in (MAP50, MAP))
    files = [folder / FILES.weights / name for name in (FILES.best, FILES.last)]  # one that paused may have no best yet
    weights = next((one for one in files if one.exists()), files[0])
    return TrainedRun(
        folder=folder, map50=map50, map=map50_95, detector=Detector(weights, device=config.device)
    )  # fmt: skip


def _size_setting(detector: ImageDetector) -> tuple[int, ...]:
    """Only YOLOX knows two sides, and says both only where they differ: one leaves the form to the recipe."""
    height, width = detector.shape
    return (width,) if height == width else (height, width)


def _refuse_own(settings: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if name in settings:
            command = f"use the command: {own_command()} train --{name}"
            fix = command if name in ("resume", "explain", "against") else "make another Detector of it"
            raise UserError(f"{name} cannot be set here: it belongs to the detector or the call", fix=fix)
