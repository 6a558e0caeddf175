"""Detections collected frame by frame while a network runs, to be stored."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from yolofast.track.formats.detections import Making, StoredDetections, make_detections
from yolofast.track.formats.sequence import Bools


class DetectionRecorder:
    """Collects the detections of one source, frame by frame; frames may be missing in between."""

    def __init__(
        self, name: str, frame_rate: float, names: Sequence[str] = (), *, every: int = 1, made: Making | None = None
    ) -> None:
        """`frame_rate` is that of the numbers of frames, of which one in `every` comes."""
        self.name, self.frame_rate, self.names, self._every, self._made = name, frame_rate, tuple(names), every, made
        self._numbers: list[int] = []
        self._times: list[float] = []
        self._parts: list[tuple[Any, Any, Any]] = []
        self._features: list[Any] = []
        self._ways: list[tuple[Bools, Bools]] = []
        self._warps: dict[int, Any] = {}
        self._size: tuple[int, int] | None = None

    def add(
        self, number: int, time: float, size: tuple[int, int], boxes: Any, scores: Any, labels: Any,
        features: Any = None, warp: Any = None,
    ) -> None:  # fmt: skip
        """`number` counts from 1; `size` is width and height of the image. Features come with all frames or none."""
        if warp is not None:
            self._warps[number] = warp
        if features is not None and len(features):
            self._features.append(features)
        self._size = self._size or size
        self._numbers.append(number)
        self._times.append(time)
        self._parts.append((boxes, scores, labels))

    def add_ways(self, number: int, time: float, size: tuple[int, int], ways: Sequence[Any], warp: Any = None) -> None:
        """`Detections` of one frame: of each overlap that is marked, what it leaves across classes and what within.

        All that any of them leaves is stored once.
        """
        rows = [np.column_stack((one.boxes, one.scores, one.labels.astype(np.float32))) for one in ways]
        places: dict[bytes, int] = {}
        left = [[places.setdefault(row.tobytes(), len(places)) for row in own] for own in rows]
        every = np.frombuffer(b"".join(places), np.float32).reshape(-1, 6)
        order = np.argsort(-every[:, 4], kind="stable")  # trackers and readers take the best first
        marks = np.zeros((len(every), len(ways)), np.bool_)
        for way, own in enumerate(left):
            marks[own, way] = True
        self._ways.append((marks[order, ::2], marks[order, 1::2]))
        every = every[order]
        self.add(number, time, size, every[:, :4], every[:, 4], every[:, 5].astype(np.int64), warp=warp)

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
        across, within = (
            (np.concatenate(column) for column in zip(*self._ways, strict=True)) if self._ways else (None, None)
        )
        whole = self._numbers == every.tolist()
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
            seen=None if whole else self._numbers,
            every=self._every,
            across=across,
            within=within,
            made=self._made,
        )
