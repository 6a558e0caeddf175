"""Detections collected frame by frame, to be stored when a video is over."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from yolofast.track.formats.detections import StoredDetections, make_detections


class DetectionRecorder:
    """Collects the detections of one source, frame by frame; frames may be missing in between."""

    def __init__(self, name: str, frame_rate: float, names: Sequence[str] = ()) -> None:
        self.name, self.frame_rate, self.names = name, frame_rate, tuple(names)
        self._numbers: list[int] = []
        self._times: list[float] = []
        self._parts: list[tuple[Any, Any, Any]] = []
        self._features: list[Any] = []
        self._warps: dict[int, Any] = {}
        self._size: tuple[int, int] | None = None

    def add(
        self,
        number: int,
        time: float,
        size: tuple[int, int],
        boxes: Any,
        scores: Any,
        labels: Any,
        features: Any = None,
        warp: Any = None,
    ) -> None:
        """`number` counts from 1; `size` is width and height of the image. Features come with all frames or none."""
        if warp is not None:
            self._warps[number] = warp
        if features is not None and len(features):
            self._features.append(features)
        self._size = self._size or size
        self._numbers.append(number)
        self._times.append(time)
        self._parts.append((boxes, scores, labels))

    def stored(self) -> StoredDetections:
        counts = [len(scores) for _, scores, _ in self._parts]
        length = max(self._numbers, default=0)
        boxes, scores, labels = (list(column) for column in zip(*self._parts, strict=True)) if counts else ([], [], [])
        width, height = self._size or (None, None)
        every = np.arange(1, length + 1)
        # Before the first frame that was seen, and in gaps, time runs at the stated rate or evenly.
        times = np.interp(every, self._numbers, self._times) if counts else np.zeros(0)
        if counts and self._numbers[0] > 1:
            early = every < self._numbers[0]
            times[early] = self._times[0] - (self._numbers[0] - every[early]) / self.frame_rate
        warps = np.tile(np.eye(2, 3), (length, 1, 1))
        for number, warp in self._warps.items():
            warps[number - 1] = warp
        return make_detections(
            self.name,
            frame=np.repeat(np.array(self._numbers, np.int64), counts),
            box=np.concatenate([np.zeros((0, 4)), *boxes]),
            score=np.concatenate([np.zeros(0), *scores]),
            label=np.concatenate([np.zeros(0, np.int64), *labels]),
            length=length,
            times=times,
            frame_rate=self.frame_rate,
            width=width,
            height=height,
            names=self.names,
            features=np.concatenate(self._features) if self._features else None,
            warps=warps if self._warps else None,
        )
