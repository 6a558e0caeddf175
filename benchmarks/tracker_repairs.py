"""What each repaired defect of a published tracker does to its scores.

`python -m benchmarks.tracker_repairs FOLDER …` with folders that hold `detections/SEQ.txt` and `gt/SEQ.txt`; by default
the golden sequence of the tests.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from yolofast import build_tracker, score_tracks
from yolofast.track.trackers.tracker import EVERY_DEFECT, Defect, Tracker

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "tracking" / "trackers"
TRACKERS = ("bytetrack", "botsort", "ocsort", "boosttrack", "boosttrack++")


def results_of(tracker: Tracker, detections: np.ndarray, length: int) -> np.ndarray:
    """Rows of a MOT result file, boxes rounded to two decimals as in one."""
    rows = []
    for frame in range(1, length + 1):
        given = detections[detections[:, 0] == frame]
        boxes = np.concatenate((given[:, 2:4], given[:, 2:4] + given[:, 4:6]), axis=1)
        found = tracker.update(boxes, given[:, 6])
        for name, box, score in zip(found.ids, found.boxes, found.scores, strict=True):
            rows.append([frame, name, *box[:2], *(box[2:] - box[:2]), score, -1, -1, -1])
    return np.array(rows).reshape(-1, 10).round(2)


def scored(
    name: str, sequences: dict[str, tuple[np.ndarray, np.ndarray, int]], defects: frozenset[str]
) -> dict[str, Any]:
    results = {}
    for sequence, (detections, _, length) in sequences.items():
        settings = {"cmc_method": "none"} if name == "botsort" else {}
        tracker = build_tracker(name, faithful=True, **settings)
        tracker.defects = defects
        results[sequence] = results_of(tracker, detections, length)
    truth = {sequence: gt for sequence, (_, gt, _) in sequences.items()}
    lengths = {sequence: length for sequence, (_, _, length) in sequences.items()}
    scores = score_tracks(truth, results, benchmark="mot15", lengths=lengths)
    return {sequence: scores.sequences[sequence] for sequence in sequences} | {"all": scores.combined}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=[GOLDEN])
    sequences = {}
    for folder in parser.parse_args().folders:
        for path in sorted((folder / "detections").glob("*.txt")):
            detections = np.loadtxt(path, delimiter=",", ndmin=2)
            truth = np.loadtxt(folder / "gt" / path.name, delimiter=",", ndmin=2)
            sequences[path.stem] = (detections, truth, int(max(detections[:, 0].max(), truth[:, 0].max())))
    print(f"sequences: {', '.join(sequences)}\n")
    print("| tracker | | HOTA | IDF1 | MOTA | IDSW |\n|---|---|---|---|---|---|")
    everything = frozenset(EVERY_DEFECT)
    for name in TRACKERS:
        base = scored(name, sequences, everything)["all"]
        lines = [("as published", base)]
        for defect in (one for one in EVERY_DEFECT if one != Defect.IDS_AT_BIRTH):  # names do not change scores
            found = scored(name, sequences, everything - {defect})["all"]
            if any(found[key] != base[key] for key in ("HOTA", "IDF1", "MOTA", "IDSW")):
                lines.append((f"without: {defect}", found))
        lines.append(("all repaired", scored(name, sequences, frozenset())["all"]))
        for what, found in lines:
            figures = " | ".join(f"{100 * found[key]:.2f}" for key in ("HOTA", "IDF1", "MOTA"))
            print(f"| {name} | {what} | {figures} | {found['IDSW']:.0f} |")


if __name__ == "__main__":
    main()
