"""`Detector`: all of yolofast in one object. The settings are those of the commands, the results are values."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yolofast.config.flags import from_settings, resolve
from yolofast.config.train import TrainConfig
from yolofast.config.val import ValConfig
from yolofast.detect.detector import DetectionFilter, ImageDetector, raise_fault
from yolofast.detect.networks import read_all_trained
from yolofast.detect.validation import Validation, open_subject, validate
from yolofast.errors import UserError
from yolofast.media.streams import OnFault
from yolofast.runs.folder import new_run_folder
from yolofast.runs.layout import FILES, MAP, MAP50
from yolofast.runs.reader import RunFolder
from yolofast.track.pipeline import (
    Follower,
    StageTimes,
    TrackedFrame,
    detected,
    tracked_frames,
    tracker_maker,
    tracking_filter,
)
from yolofast.track.timeline import open_sources
from yolofast.words import own_command

__all__ = ["Detector", "TrackedFrame", "TrainedRun", "Validation"]


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


class Detector(ImageDetector):
    """`Detector("best.pt").predict("street.jpg")`.

    Several weights form an ensemble. `cfg` names the network for weights that do not hold theirs. `size` is the long
    side pictures are resized to, for YOLOX also height and width, by default as in training.
    """

    def train(self, data: str | Path, **settings: Any) -> TrainedRun:
        """Trains this network further on a data set, in a run folder of its own; this detector stays as it is.

        `settings` are the flags of `yolofast train`: `epochs=10, batch_size=32`.
        """
        from yolofast.train.session import train  # takes a second, which prediction does not need

        if len(self.weights) > 1:
            raise UserError(f"{len(self.weights)} networks cannot be trained together", fix="train one of them")
        own = {
            "weights": self.weights[0],
            "cfg": self.cfg or "",
            "data": data,
            "img_size": _size_setting(self),
            "device": self.device,
        }
        _refuse_own(settings, "weights", "cfg", "model", "data", "resume", "explain")
        config = from_settings(TrainConfig, settings, from_settings(TrainConfig, own))
        given = [*own, *(resolve(TrainConfig, key, value)[0] for key, value in settings.items())]
        folder = train(config, {name: getattr(config, name) for name in given})
        run = RunFolder(folder)
        best = run.best_row()
        map50, map50_95 = (0.0 if best is None else float(run.column(one.name)[best]) for one in (MAP50, MAP))
        return TrainedRun(
            folder=folder,
            map50=map50,
            map=map50_95,
            detector=Detector(folder / FILES.weights / FILES.best, device=self.device),
        )

    def track(
        self,
        source: str | Path | Sequence[str | Path],
        tracker: str = "botsort",
        *,
        batch: int = 16,
        every: int = 1,
        frame_rate: float | None = None,
        class_handling: str = "vote",
        faithful: bool = False,
        on_fault: OnFault | None = None,
        **settings: Any,
    ) -> Iterator[TrackedFrame]:
        """The frames of videos, folders of images, streams or cameras with their tracks.

        Several sources are seen by the network together and tracked apart. `settings` are those of `predict` and, by
        their published names, those of the tracker. `frame_rate` is that of folders of images. Reading, detecting,
        camera motion and tracking overlap.
        """
        names = {field.name for field in dataclasses.fields(DetectionFilter)}
        own = {name: settings.pop(name) for name in names & settings.keys()}
        chosen = tracking_filter(class_handling, own)
        chosen.class_numbers(self.names)  # an unknown class is reported before anything is read
        make = tracker_maker(tracker, faithful=faithful, class_handling=class_handling, settings=settings)
        sources = [str(source)] if isinstance(source, str | Path) else [str(one) for one in source]
        opened = open_sources(sources, batch, every=every, frame_rate=frame_rate, on_fault=on_fault or raise_fault)
        times = StageTimes()
        seen = detected(self, opened.batches, chosen, opened.timeline, times)
        return tracked_frames(Follower(make, times, several=len(sources) > 1).follow(seen))

    def val(self, data: str | Path, **settings: Any) -> Validation:
        """How good it is on a data set; `settings` are the flags of `yolofast val`."""
        base = from_settings(
            ValConfig, {"weights": self.weights, "data": data, "img_size": _size_setting(self), "device": self.device}
        )
        _refuse_own(settings, "weights", "cfg", "model", "data")
        config = from_settings(ValConfig, settings, base)
        if config.task in ("speed", "study"):
            raise UserError(f"task is {config.task}", fix=f"use the command: {own_command()} val --task {config.task}")
        trained = read_all_trained(self.weights, self.cfg, config.head_config or None)
        subject = open_subject(config, trained, lambda text: None)
        return validate(subject, new_run_folder(config.project, config.name, config.exist_ok))


def _size_setting(detector: ImageDetector) -> tuple[int, ...]:
    """Only YOLOX knows two sides, and says both only where they differ: one leaves the form to the recipe."""
    height, width = detector.shape
    return (width,) if height == width else (height, width)


def _refuse_own(settings: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if name in settings:
            command = f"use the command: {own_command()} train --{name}"
            fix = command if name in ("resume", "explain") else "make another Detector of it"
            raise UserError(f"{name} cannot be set here: it belongs to the detector or the call", fix=fix)
