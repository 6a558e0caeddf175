"""The parts of a report that say how good the best weights are, and on what they fail.

Where a file is of another epoch than the best one, every part that is made of it says so.
"""

import math
import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from yolofast.pages.elements import Callout, Cell, Element, LineChart, Marked, Matrix, Paragraph, Picture, Series, Table
from yolofast.runs.layout import FILES
from yolofast.runs.reader import RunFolder, epoch_of, of_another_epoch

_MOST_CURVES, _CURVES_OF_MANY = 12, 7
"""Besides the mean. Of more classes only some are shown: as many as have colours of their own."""
_MOST_CLASSES_IN_MATRIX = 40
_SCORES = ("boxes", "precision", "recall", "f1", "ap50")
_CONFUSIONS = 12
_MOST_SAMPLES = 12
_MOST_BYTES = 2 * 2**20
_BACKGROUND = "background"


def per_class(run: RunFolder) -> tuple[Element, ...]:
    rows = list(run.evaluation.get("per_class", {}).values())
    if not rows:
        return ()
    scores = [float(row["ap"]) for row in rows]
    cells = tuple(
        (str(row["name"]), *(float(row[name]) for name in _SCORES), _marked(row["ap"], scores)) for row in rows
    )
    confidence, images = run.evaluation["confidence"], run.evaluation["images"]
    epoch, where = epoch_of(run.evaluation), f"at confidence {confidence:.3f}, where mean F1 is best"
    whose = "Best weights" if epoch is None else f"Weights of epoch {epoch}"
    note = f"{whose}, {images:,} validation images. Precision, recall and F1 {where}."
    columns = ("class", "boxes", "precision", "recall", "F1", "AP50", "AP50-95")
    return (*_of_another_epoch(run, run.evaluation), Table(columns, cells, note, sortable=True))


def motion(run: RunFolder) -> tuple[Element, ...]:
    """Of a motion model: its boxes some frames ahead, beside those of other methods."""
    found = run.entries(FILES.motion)
    methods, counts = found.get("methods"), found.get("histories", [])
    if not methods:
        return ()
    ahead = tuple(range(1, len(counts) + 1))
    curves = {
        name: {key: [math.nan if one is None else float(one) for one in values[key]] for key in ("overlap", "offset")}
        for name, values in methods.items()
    }
    series = tuple(Series(name, ahead, tuple(one["overlap"])) for name, one in curves.items())
    shown = [frames for frames in found.get("horizons", []) if frames <= len(counts)]
    columns = ("", *(f"IoU after {frames}" for frames in shown), *(f"off by, after {frames}" for frames in shown))
    rows = tuple(
        (name, *(one[key][frames - 1] for key in ("overlap", "offset") for frames in shown))
        for name, one in curves.items()
    )
    note = f"Frames ahead; {counts[0]:,} validation histories. Off by: distance of the centres in sizes of the box."
    return Table(columns, rows, note), LineChart("Overlap with the true box", "frames ahead", "IoU", series)


def precision_recall(run: RunFolder) -> tuple[Element, ...]:
    curves = {key: tuple(map(float, curve)) for key, curve in run.evaluation.get("precision_at_recall", {}).items()}
    if "mean" not in curves:
        return ()
    if any(len(curve) != len(curves["mean"]) for curve in curves.values()):
        raise ValueError("curves of different lengths")
    recalls = tuple(np.linspace(0, 1, len(curves["mean"])).round(4).tolist())
    shown, left_out = _telling([row for row in run.evaluation["per_class"].values() if str(row["id"]) in curves])
    series = [Series(f"all classes {run.evaluation['map50']:.3f}", recalls, curves["mean"])]
    series += [Series(f"{row['name']} {row['ap50']:.3f}", recalls, curves[str(row["id"])]) for row in shown]
    hint = f"The best and the worst classes by AP50; left out: {left_out}." if left_out else ""
    title = "Precision over recall at an overlap of 0.5, with AP50"
    chart = LineChart(title, "recall", "precision", tuple(series), hint=hint)
    return (*_of_another_epoch(run, run.evaluation), chart)


def confusion(run: RunFolder) -> tuple[Element, ...]:
    cells, names = run.evaluation.get("confusion", []), [*map(str, run.evaluation.get("names", [])), _BACKGROUND]
    if not cells:
        return ()
    totals = Counter[int]()
    for _, true, count in cells:
        totals[true] += count
    elements: list[Element] = [*_of_another_epoch(run, run.evaluation)]
    if len(names) <= _MOST_CLASSES_IN_MATRIX + 1:
        elements.append(_matrix(cells, names))
    mistakes = sorted((cell for cell in cells if cell[0] != cell[1]), key=lambda cell: -cell[2])[:_CONFUSIONS]
    if mistakes:
        rows = tuple(_mistake(names, predicted, true, count, totals[true]) for predicted, true, count in mistakes)
        elements.append(Table(("most frequent mistakes", "times", "share of"), rows))
    return tuple(elements)


def samples(run: RunFolder) -> tuple[Element, ...]:
    pictures, size = [], 0
    problems: list[str] = []
    for row in run.samples[:_MOST_SAMPLES]:
        content = _jpeg(run, str(row["file"]), problems)
        if content is None or size + len(content) > _MOST_BYTES:
            continue
        size += len(content)
        caption = f"{row['image']}: {row['missed']} missed, {row['wrong']} wrong, {row['right']} right"
        pictures.append(Picture(content, "jpeg", caption, f"validation image {caption}"))
    remarks = [Callout("warn", problem) for problem in problems]
    if not pictures:
        return tuple(remarks)
    legend = "Blue: right. Orange: not there, or of another class. Magenta: missed. Confidence 0.25, overlap 0.5."
    return (*_of_another_epoch(run, run.samples[0]), *_how_many(run), *remarks, Paragraph(legend), *pictures)


def _of_another_epoch(run: RunFolder, values: Mapping[str, Any]) -> tuple[Element, ...]:
    nosave = bool(run.args.get("nosave"))
    words = of_another_epoch(epoch_of(values), run.epochs(), run.fitness(), nosave=nosave)
    return (Callout("warn", f"This is {words}."),) if words else ()


def _how_many(run: RunFolder) -> tuple[Element, ...]:
    wrong, images = run.evaluation.get("images_with_faults"), run.evaluation.get("images")
    if wrong is None or images is None or epoch_of(run.evaluation) != epoch_of(run.samples[0]):
        return ()
    if not wrong:
        return (Callout("good", f"In none of the {images:,} validation images a box is missed or wrong."),)
    return (Paragraph(f"{wrong:,} of {images:,} validation images have a missed or wrong box; the worst come first."),)


def _jpeg(run: RunFolder, name: str, problems: list[str]) -> bytes | None:
    """Only from the folder of samples, whatever the list says. One that is there and cannot be read is a problem."""
    path = run.path / FILES.samples / name
    if path.name != name:
        return None
    try:
        if stat.S_ISREG(path.stat().st_mode):
            content = path.read_bytes() if path.stat().st_size <= _MOST_BYTES else b""
            return content if content.startswith(b"\xff\xd8") else None
        problems.append(f"{FILES.samples}/{name} is not a file")
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:  # names, too, come from a file
        problems.append(f"{FILES.samples}/{name} cannot be read: {getattr(error, 'strerror', None) or error}")
    return None


def _marked(score: float, scores: Sequence[float]) -> Cell:
    best, worst = max(scores), min(scores)
    return score if best == worst or worst < score < best else Marked(score, "best" if score == best else "worse")


def _telling(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """All classes, or the best and the worst ones; and how many are left out."""
    if len(rows) <= _MOST_CURVES:
        return rows, 0
    rows = sorted(rows, key=lambda row: -row["ap50"])
    half = _CURVES_OF_MANY // 2
    return rows[:half] + rows[half - _CURVES_OF_MANY :], len(rows) - _CURVES_OF_MANY


def _matrix(cells: Sequence[Sequence[int]], names: Sequence[str]) -> Matrix:
    counts = np.zeros((len(names), len(names)))
    for predicted, true, count in cells:
        counts[predicted, true] = count
    hint = "Boxes above confidence 0.25, shaded by their share of the true class. Predicted background: missed. "
    hint += "True background: seen where nothing is, shaded by their share of all such boxes."
    values = tuple(tuple(row) for row in counts.tolist())
    return Matrix("Predicted and true classes", "predicted", "true", tuple(names), tuple(names), values, hint)


def _mistake(names: Sequence[str], predicted: int, true: int, count: int, whole: int) -> tuple[Cell, ...]:
    """A box that is nowhere has no true class: it is counted among its like."""
    background, of = len(names) - 1, f"true {names[true]} boxes"
    words = f"{names[true]}: missed" if predicted == background else f"{names[true]}: taken for {names[predicted]}"
    if true == background:
        words, of = f"{names[predicted]}: seen where nothing is", "boxes seen where nothing is"
    return words, count, f"{count / whole:.1%} of {whole:,} {of}"
