"""Speed per image (`Speed`), and accuracy and speed over image sizes (`--task study`) as a text file and a picture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from yolofast.evaluate.drawing import blank, encoded, plain
from yolofast.evaluate.v7_metrics import V7Result
from yolofast.files.atomic_file import write_output


@dataclass(frozen=True, kw_only=True)
class Speed:
    inference: float
    """Milliseconds per image, from levels on the device to decoded predictions."""
    suppression: float
    """Milliseconds per image, to detections on the host."""
    images: int
    size: int
    """Pixels of the long side."""
    batch: int

    @property
    def total(self) -> float:
        return self.inference + self.suppression

    def __str__(self) -> str:
        return (
            f"speed: {self.inference:.2f} ms inference, {self.suppression:.2f} ms NMS, {self.total:.2f} ms total per "
            f"image at {self.size} pixels and batch size {self.batch} ({self.images:,} images)"
        )


STUDY_SIZES = tuple(range(256, 1536 + 128, 128))
COLUMNS = ("size", "P", "R", "mAP50", "mAP50-95", "inference", "NMS", "total")


@dataclass(frozen=True)
class StudyRow:
    metrics: V7Result
    timing: Speed

    def values(self) -> tuple[float, ...]:
        """In the order of `COLUMNS`; times in ms per image."""
        metrics, timing = self.metrics, self.timing
        scores = (metrics.mean_precision, metrics.mean_recall, metrics.map50, metrics.map)
        return (timing.size, *scores, timing.inference, timing.suppression, timing.total)


def save_study_text(path: Path, rows: Sequence[StudyRow]) -> Path:
    """Columns of width 10 with 4 significant digits, below a line that names them."""
    lines = ["#" + "".join(f"{name:>10}" for name in COLUMNS)[1:]]
    lines += ["".join(f"{value:10.4g}" for value in row.values()) for row in rows]
    return write_output(path, ("\n".join(lines) + "\n").encode())


def save_study_plot(path: Path, studies: Mapping[str, Sequence[StudyRow]]) -> Path:
    """mAP over the time an image takes, a line per network, each point with its image size."""
    figure, canvas, plot = blank((9, 6))
    for name, rows in studies.items():
        times, scores = [row.timing.total for row in rows], [row.metrics.map for row in rows]
        plot.plot(times, scores, marker="o", label=plain(name))
        for row, x, y in zip(rows, times, scores, strict=True):
            plot.annotate(str(row.timing.size), (x, y), textcoords="offset points", xytext=(4, 4), fontsize=7)
    plot.set(xlabel="ms per image, inference and NMS", ylabel="mAP50-95", xlim=(0, None))
    plot.grid(visible=True, alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=8)
    return write_output(path, encoded(canvas))
