"""Which checkpoint tracks best: detections of each are made once and kept, then searched as any others.

Detections lie in the output folder under the digest of the weights and what they were made with. Each sequence has a
file, which is written when the sequence is through: an interrupted call continues with the next sequence.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from yolofast.detect.detector import DetectionFilter, ImageDetector, raise_fault
from yolofast.errors import UserError, nearest_file
from yolofast.files.atomic_file import write_output
from yolofast.media.sources import frame_batches, images_of
from yolofast.runs.layout import FILES
from yolofast.runs.reader import RunFolder
from yolofast.track.formats.detections import ENDING, StoredDetections, write_detections
from yolofast.track.formats.read_detections import read_detections
from yolofast.track.formats.sequence import Floats
from yolofast.track.storing import DetectionStore
from yolofast.track.sweep.figures import FIGURES, figures_of, worth
from yolofast.track.sweep.findings import Findings, behind_best
from yolofast.track.sweep.space import Trial
from yolofast.track.timeline import FrameTimeline

MADE_BY = "yolofast tracksweep"
_KEPT_IN_JSON = ("HOTA", "DetA", "AssA", "MOTA", "IDF1", "IDSW", "FP", "FN", "Frag")
_DIGEST = 16
_BLOCK = 2**20


@dataclass(frozen=True)
class DetectWith:
    """What detections depend on, beside weights and images."""

    iou: float = 0.7
    """Overlap above which the worse of two candidates is not stored: no search can ask for a higher one."""
    size: int | None = None
    cfg: str = ""
    device: str = ""
    batch: int = 16

    def key(self) -> str:
        return f"iou{self.iou:g}-size{self.size or 'own'}-both-camera"


@dataclass(frozen=True)
class Checkpoint:
    path: Path
    digest: str
    run: Path | None
    """The folder of the run it belongs to."""
    epoch: int | None
    """From 1."""


def read_checkpoints(names: Sequence[str]) -> list[Checkpoint]:
    """In the order of their epochs; a file that is there twice, under two names, counts once for each epoch."""
    found = [_checkpoint(Path(name)) for name in names]
    once = {(one.digest, one.epoch, one.run): one for one in found}
    return sorted(once.values(), key=lambda one: (str(one.run or ""), one.epoch is None, one.epoch or 0))


def _checkpoint(path: Path) -> Checkpoint:
    if not path.is_file():
        fix = "name checkpoints: train --save-period 1 keeps one of every epoch"
        raise UserError(f"does not exist{nearest_file(path)}", where=path, fix=fix)
    content = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            content.update(block)
    run = path.absolute().parent.parent
    inside = path.absolute().parent.name == FILES.weights and (run / FILES.results).is_file()
    return Checkpoint(path, content.hexdigest(), run if inside else None, _epoch(path, run if inside else None))


def _epoch(path: Path, run: Path | None) -> int | None:
    if named := re.fullmatch(FILES.of_epoch.replace("*", r"(\d+)"), path.name):
        return int(named[1])
    if run is None:
        return None
    folder = RunFolder(run)
    row = {FILES.best: folder.best_row(), FILES.last: len(folder.results) - 1}.get(path.name)
    return None if row is None else int(folder.epochs()[row])


def detect(
    checkpoint: Checkpoint,
    sources: Mapping[str, Path | None],
    folder: Path,
    how: DetectWith,
    say: Callable[[str], None],
) -> dict[str, StoredDetections]:
    """By sequence, read from the folder where they are already there."""
    own = folder / "detections" / f"{checkpoint.digest[:_DIGEST]}-{how.key()}"
    found: dict[str, StoredDetections] = {}
    detector: ImageDetector | None = None
    for name, source in sources.items():
        path = own / f"{name}{ENDING}"
        if not path.is_file():
            if source is None:
                fix = "its images belong into img1, or where imDir of seqinfo.ini says"
                raise UserError(f"{name} has no images", fix=fix)
            detector = detector or ImageDetector(checkpoint.path, cfg=how.cfg or None, size=how.size, device=how.device)
            say(f"{checkpoint.path.name}: detecting in {name}")
            write_detections(path, _detected(detector, name, source, how))
        found[name] = read_detections(path)
    return found


def _detected(detector: ImageDetector, name: str, source: Path, how: DetectWith) -> StoredDetections:
    store = DetectionStore(detector, DetectionFilter(iou=how.iou), FrameTimeline(images_of(str(source))))
    for _ in store.detect(frame_batches(str(source), how.batch, on_fault=raise_fault)):
        pass
    for stored in store.stored().values():
        return replace(stored, name=name)
    raise UserError("holds no frames", where=source, fix="check the images of the sequence")


@dataclass(frozen=True, eq=False)
class TrackedCheckpoint:
    checkpoint: Checkpoint
    found: Findings

    @property
    def settings(self) -> Trial:
        return self.found.trials[self.found.best]

    @property
    def rows(self) -> Floats:
        """[sequences, WIDTH] with these settings."""
        found: Floats = self.found.searched.rows[self.found.best]
        return found

    def scores(self) -> dict[str, float]:
        return figures_of(self.rows)


def write_tracking(tracked: Sequence[TrackedCheckpoint], about: Mapping[str, Any]) -> list[Path]:
    """`tracking.json` into the folder of each run. Epochs that an earlier call has tracked alike stay beside these.

    `about` says what the scores depend on: sequences, criterion, what was searched. What was tracked otherwise is not
    lost: it stays under `earlier`, the newest first.
    """
    about = json.loads(json.dumps(about))
    runs = dict.fromkeys(one.checkpoint.run for one in tracked if one.checkpoint.run is not None)
    written = []
    for run in runs:
        own = [one for one in tracked if one.checkpoint.run == run and one.checkpoint.epoch is not None]
        rows = {one.checkpoint.epoch: _row(one) | behind for one, behind in zip(own, _behind(own), strict=True)}
        path = run / FILES.tracking
        earlier = _groups(RunFolder(run).entries(FILES.tracking))
        for before in [one for one in earlier if all(one.get(key) == value for key, value in about.items())]:
            rows = {row["epoch"]: row for row in before["epochs"] if isinstance(row.get("epoch"), int)} | rows
            earlier.remove(before)
        if not rows:
            continue
        ordered = [rows[epoch] for epoch in sorted(rows, key=lambda epoch: epoch or 0)]
        content = {"made_by": MADE_BY, **about, "epochs": ordered, "earlier": earlier}
        text = json.dumps(content, indent=1)
        written.append(write_output(path, f"{text}\n".encode()))
    return written


def _behind(own: Sequence[TrackedCheckpoint]) -> list[dict[str, Any]]:
    """Of each the best of them, by which it was chosen, and how far it is behind that one."""
    if not own or own[0].found.interval is None:
        return [{} for _ in own]
    rows, by = np.stack([one.rows for one in own]), own[0].found.by
    best = own[int(np.argmax(worth(by, FIGURES[by].of(rows.sum(1)))))].checkpoint.epoch
    return [{"behind": {"epoch": best, "interval": list(ends)}} for ends in behind_best(rows, by)]


def _groups(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a `tracking.json` holds: epochs that were tracked alike, and earlier ones."""
    kept = content.get("earlier")
    newest = {name: value for name, value in content.items() if name not in ("made_by", "earlier")}
    groups = [newest, *(kept if isinstance(kept, list) else ())]
    return [one for one in groups if isinstance(one, dict) and isinstance(one.get("epochs"), list)]


def _row(one: TrackedCheckpoint) -> dict[str, Any]:
    scores = one.scores()
    return {
        "epoch": one.checkpoint.epoch,
        "weights": one.checkpoint.path.name,
        "sha256": one.checkpoint.digest,
        **{name: scores[name] for name in _KEPT_IN_JSON},
        "interval": None if one.found.interval is None else list(one.found.interval),
        "left_out": one.found.left_out,
        "settings": one.settings,
    }
