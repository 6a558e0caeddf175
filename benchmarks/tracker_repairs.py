"""What each repaired defect of a published tracker does to its scores.

`python -m benchmarks.tracker_repairs FOLDER …` with folders that hold `detections/SEQ.txt` and `gt/SEQ.txt`; by default
the golden sequence of the tests. BoT-SORT's gates are tried on sequences that have `detections/SEQ.features.json`, too.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from yolofast import build_tracker, score_tracks
from yolofast.track.trackers.table import TRACKERS
from yolofast.track.trackers.tracker import EVERY_DEFECT, Defect, Tracker

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "tracking" / "trackers"


Given = dict[str, tuple[np.ndarray, np.ndarray, int, list[Any] | None]]
"""Of sequences: detections, truth, number of frames, and vectors of appearance by frame."""


def results_of(tracker: Tracker, detections: np.ndarray, length: int, features: list[Any] | None) -> np.ndarray:
    """Rows of a MOT result file, boxes rounded to two decimals as in one."""
    rows = []
    for frame in range(1, length + 1):
        given = detections[detections[:, 0] == frame]
        boxes = np.concatenate((given[:, 2:4], given[:, 2:4] + given[:, 4:6]), axis=1)
        looks = features[frame - 1] if features is not None and tracker.looks else None
        found = tracker.update(boxes, given[:, 6], features=looks)
        for name, box, score in zip(found.ids, found.boxes, found.scores, strict=True):
            rows.append([frame, name, *box[:2], *(box[2:] - box[:2]), score, -1, -1, -1])
    return np.array(rows).reshape(-1, 10).round(2)


def scored(name: str, sequences: Given, defects: frozenset[str], **settings: Any) -> Any:
    results = {}
    for sequence, (detections, _, length, features) in sequences.items():
        still = {"cmc_method": "none"} if name == "botsort" else {}
        tracker = build_tracker(name, faithful=True, **still, **settings)
        tracker.defects = defects
        results[sequence] = results_of(tracker, detections, length, features)
    truth = {sequence: given[1] for sequence, given in sequences.items()}
    lengths = {sequence: given[2] for sequence, given in sequences.items()}
    return score_tracks(truth, results, benchmark="mot15", lengths=lengths).combined


def gates(sequences: Given) -> list[tuple[str, Any]]:
    """BoT-SORT with appearance, with the published gates and with those it has by default."""
    everything, wide = frozenset(EVERY_DEFECT), TRACKERS["botsort"].repaired
    return [
        ("as published", scored("botsort", sequences, everything, with_reid=True)),
        ("with the repaired gates", scored("botsort", sequences, everything, with_reid=True, **wide)),
        ("all repaired", scored("botsort", sequences, frozenset(), with_reid=True, **wide)),
    ]


def show(name: str, lines: list[tuple[str, Any]]) -> None:
    for what, found in lines:
        figures = " | ".join(f"{100 * found[key]:.2f}" for key in ("HOTA", "IDF1", "MOTA"))
        print(f"| {name} | {what} | {figures} | {found['IDSW']:.0f} |")


def read(folders: list[Path]) -> Given:
    sequences: Given = {}
    for folder in folders:
        for path in sorted((folder / "detections").glob("*.txt")):
            detections = np.loadtxt(path, delimiter=",", ndmin=2)
            truth = np.loadtxt(folder / "gt" / path.name, delimiter=",", ndmin=2)
            looks = path.with_suffix(".features.json")
            features = json.loads(looks.read_text())["frames"] if looks.exists() else None
            length = int(max(detections[:, 0].max(), truth[:, 0].max()))
            sequences[path.stem] = detections, truth, length, features
    return sequences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=[GOLDEN])
    sequences = read(parser.parse_args().folders)
    print(f"sequences: {', '.join(sequences)}\n")
    print("| tracker | | HOTA | IDF1 | MOTA | IDSW |\n|---|---|---|---|---|---|")
    everything = frozenset(EVERY_DEFECT)
    for name in TRACKERS:
        base = scored(name, sequences, everything)
        lines = [("as published", base)]
        for defect in (one for one in EVERY_DEFECT if one != Defect.IDS_AT_BIRTH):  # names do not change scores
            found = scored(name, sequences, everything - {defect})
            if any(found[key] != base[key] for key in ("HOTA", "IDF1", "MOTA", "IDSW")):
                lines.append((f"without: {defect}", found))
        lines.append(("all repaired", scored(name, sequences, frozenset())))
        show(name, lines)
    looked_at = {name: given for name, given in sequences.items() if given[3] is not None}
    if looked_at:
        show(f"botsort with appearance, {', '.join(looked_at)}", gates(looked_at))


if __name__ == "__main__":
    main()
