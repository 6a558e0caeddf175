"""The files of a tracked video, written as it runs and named when they are whole: MOT results and JSON.

A stream may run for days, so rows go to the disk at once, under another name. Closing completes a file and gives it its
name, also after an interrupt: results so far are kept.
"""

import io
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from yolofast.errors import UserError
from yolofast.files.atomic_file import name_beside, opened_new, remove_abandoned
from yolofast.track.counting import Counts
from yolofast.track.pipeline import FollowedFrame
from yolofast.track.trackers.tracks import Tracks

MADE_BY = "yolofast track"


class ResultFile:
    """Text that grows under a hidden name until `close`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._part = name_beside(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            remove_abandoned(path.parent, path.name)
            self._file = io.TextIOWrapper(opened_new(self._part), encoding="utf-8")
        except OSError as error:
            raise self._cannot(error) from None

    def write(self, text: str) -> None:
        try:
            self._file.write(text)
        except OSError as error:
            raise self._cannot(error) from None

    def close(self) -> None:
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._part.replace(self.path)
        except OSError as error:
            raise self._cannot(error) from None

    def _cannot(self, error: OSError) -> UserError:
        return UserError(
            f"cannot be written: {error.strerror}", where=self.path, fix="make room, or name another place"
        )


class TrackFiles:
    """`NAME.txt`, a row per box as MOTChallenge asks for, and `NAME.json`, with times, lost tracks and counts."""

    def __init__(self, folder: Path, name: str, about: Mapping[str, Any], names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._rows, self._json = ResultFile(folder / f"{name}.txt"), ResultFile(folder / f"{name}.json")
        head = json.dumps({"made_by": MADE_BY, "name": name, **about, "names": list(names)})
        self._json.write(f'{head[:-1]}, "frames": [')
        self._first = True

    def add(self, one: FollowedFrame) -> None:
        tracks, place = one.tracks, one.place
        self._rows.write(mot_rows(place.number, tracks))
        frame = {
            "frame": place.number,
            "time": round(place.time, 6),
            "detections": len(one.found),
            "tracks": _plain(tracks),
            "lost": _plain(one.lost),
        }
        self._json.write(("\n" if self._first else ",\n") + json.dumps(frame))
        self._first = False

    def close(self, counts: Counts, remarks: Sequence[str], *, last_frame: int, complete: bool) -> None:
        """`complete`: the run was not ended before the video was."""
        end = {
            "counts": counts_json(counts, self._names), "remarks": list(remarks), "last_frame": last_frame,
            "complete": complete,
        }  # fmt: skip
        self._json.write(f"\n], {json.dumps(end)[1:]}\n")
        self._rows.close()
        self._json.close()

    @property
    def paths(self) -> tuple[Path, Path]:
        return self._rows.path, self._json.path


def mot_rows(number: int, tracks: Tracks) -> str:
    """`frame,id,x,y,w,h,score,class,-1,-1`, the class by its place in the network's names, from 0."""
    size = tracks.boxes[:, 2:] - tracks.boxes[:, :2]
    columns = tracks.ids, tracks.boxes[:, :2], size, tracks.scores, tracks.labels
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return "".join(
        f"{number},{id},{x:.4f},{y:.4f},{w:.4f},{h:.4f},{score:.5f},{label},-1,-1\n"
        for id, (x, y), (w, h), score, label in rows
    )


def counts_json(counts: Counts, names: Sequence[str]) -> dict[str, Any]:
    def named(found: Counter[int]) -> dict[str, int]:
        return {class_name(label, names): count for label, count in sorted(found.items())}

    return {
        "identities": named(counts.identities()),
        "lines": {
            name: {"forwards": named(one.forwards), "backwards": named(one.backwards)}
            for name, one in counts.lines.items()
        },
        "zones": {
            name: {"inside": named(one.inside), "entered": named(one.entered)} for name, one in counts.zones.items()
        },
    }


def class_name(label: int, names: Sequence[str]) -> str:
    return names[label] if 0 <= label < len(names) else "without class" if label < 0 else f"class {label}"


def _plain(tracks: Tracks) -> list[dict[str, Any]]:
    columns = tracks.ids, tracks.boxes, tracks.scores, tracks.labels
    return [
        {"id": id, "box": [round(value, 3) for value in box], "score": round(score, 5), "class": label}
        for id, box, score, label in zip(*(column.tolist() for column in columns), strict=True)
        if id > 0
    ]
