"""`benchmark`: which format is how fast, how large and how good on this machine; as values, JSON and a page."""

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from yolofast._version import __version__
from yolofast.config.predict import BenchmarkConfig, ValConfig
from yolofast.dataset.data_argument import data_file, read_named_split
from yolofast.dataset.shapes.files import scene
from yolofast.detect.networks import read_all_trained
from yolofast.detect.validation import open_subject, validate
from yolofast.export.contest import Contestant, bytes_of, checked_sizes, contestants, open_detector
from yolofast.export.timing import interleaved, memory_of
from yolofast.media.pictures import read_picture
from yolofast.pages.elements import Bar, BarChart, Code, Element, Page, Paragraph, Section, Table
from yolofast.pixels import Image

Say = Callable[[str], None]
_TIMED_PICTURES = 32
_MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class FormatRow:
    """Of one format; None is not measured."""

    name: str
    precision: str
    median_ms: float
    p99_ms: float
    images_per_second: float
    file_bytes: int
    memory_bytes: int | None
    gpu_bytes: int | None
    map50: float | None
    map: float | None


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    rows: tuple[FormatRow, ...]
    missing: Mapping[str, str]
    """Formats that do not run here, and why."""
    shape: tuple[int, int]
    batch: int
    calls: int
    """Single images that each format was timed with."""
    threads: int
    pictures: str
    data: str
    environment: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {"yolofast": __version__, **asdict(self)}


COLUMNS = ("format", "type", "median ms", "p99 ms", "images/s", "file MB", "memory MiB", "mAP50", "mAP50-95")


def cells(row: FormatRow) -> tuple[str | float | None, ...]:
    """In the order of `COLUMNS`."""
    memory = None if row.memory_bytes is None else row.memory_bytes / _MIB
    times = (row.median_ms, row.p99_ms, row.images_per_second)
    return (row.name, row.precision, *times, row.file_bytes / 1e6, memory, row.map50, row.map)


def benchmark(config: BenchmarkConfig, weights: Sequence[str], environment: Mapping[str, Any], say: Say) -> Benchmark:
    pictures, described = _pictures(config, say)
    folder = Path(tempfile.mkdtemp(prefix="yolofast-benchmark-"))
    try:
        taking_part, missing = contestants(config, weights, folder, say)
        opened = {one.name: open_detector(one.weights, one.cfg, config.img_size, config.device) for one in taking_part}
        shape = checked_sizes(list(opened.values()))
        say(
            f"{len(opened)} formats, {config.rounds} rounds of {config.calls} images and a batch of {config.batch_size}"
        )
        times = interleaved(
            {name: one.detect for name, one in opened.items()}, pictures,
            batch=config.batch_size, rounds=config.rounds, calls=config.calls,
        )  # fmt: skip
        rows = []
        for one in taking_part:
            host, gpu = _memory(config, one) if config.memory else (None, None)
            map50, map50_95 = _ap(config, one, shape, folder) if config.data else (None, None)
            found = times[one.name]
            rows.append(
                FormatRow(
                    name=one.name,
                    precision=opened[one.name].precision,
                    median_ms=found.latency_ms(50),
                    p99_ms=found.latency_ms(99),
                    images_per_second=found.images_per_second,
                    file_bytes=bytes_of(one.weights),
                    memory_bytes=host,
                    gpu_bytes=gpu,
                    map50=map50,
                    map=map50_95,
                )
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Benchmark(
        rows=tuple(rows), missing=missing, shape=shape, batch=config.batch_size, calls=config.rounds * config.calls,
        threads=torch.get_num_threads(), pictures=described, data=config.data, environment=dict(environment),
    )  # fmt: skip


def _pictures(config: BenchmarkConfig, say: Say) -> tuple[list[Image], str]:
    if not config.data:
        return [scene("val", number, 0).image for number in range(_TIMED_PICTURES)], "drawn shapes"
    index = read_named_split(data_file(config.data, say), "val", say, single_cls=False, fraction=1.0, skip_bad=True)
    places = np.unique(np.linspace(0, len(index) - 1, min(_TIMED_PICTURES, len(index))).round().astype(np.int64))
    return [read_picture(index.path(place)) for place in places], f"{len(places)} images of {config.data}"


def _memory(config: BenchmarkConfig, one: Contestant) -> tuple[int, int]:
    return memory_of(
        one.weights, cfg=one.cfg, size=config.img_size, device=config.device, batch=config.batch_size,
        threads=torch.get_num_threads(),
    )  # fmt: skip


def _ap(config: BenchmarkConfig, one: Contestant, shape: tuple[int, int], folder: Path) -> tuple[float, float]:
    """As `val --no-rect` finds it: all see their images padded alike."""
    sides = shape[:1] if shape[0] == shape[1] else shape
    evaluated = ValConfig(
        weights=(one.weights,), cfg=one.cfg, data=config.data, fraction=config.fraction, device=config.device,
        batch_size=config.batch_size, img_size=sides, rect=False, plots=False, cache="off", skip_bad=True,
    )  # fmt: skip
    trained = read_all_trained([one.weights], one.cfg or None, None, config.device)
    found = validate(open_subject(evaluated, trained, lambda text: None), folder).metrics
    return float(found.map50), float(found.map)


def page_of(found: Benchmark, command: str) -> Page:
    height, width = found.shape
    device = found.environment.get("gpu") or found.environment.get("cpu") or "this machine"
    latency = tuple(Bar(one.name, (("ms", one.median_ms),)) for one in found.rows)
    speed: tuple[Element, ...] = (
        Table(COLUMNS, tuple(cells(row) for row in found.rows), sortable=True),
        BarChart("median latency of one image", "ms", latency),
        BarChart(
            f"throughput, {found.batch} images at once", "images/s",
            tuple(Bar(one.name, (("images/s", one.images_per_second),)) for one in found.rows),
        ),
    )  # fmt: skip
    how = (
        f"A picture in memory goes in, boxes in its pixels come out: fitting, network and suppression are timed. "
        f"Formats took turns; each had {found.calls} single images ({found.pictures}), "
        f"{found.threads} threads, images of {height}×{width} pixels."
    )
    memory = "Memory is what opening and running add to a process of its own. AP is that of `val --no-rect`."
    rows = tuple((name, value) for name, value in found.environment.items() if isinstance(value, str | int | float))
    sections = [
        Section("Formats", speed),
        Section("How it was measured", (Paragraph(how), Paragraph(memory), Code(command))),
    ]
    if found.missing:
        sections.append(Section("Not measured", (Table(("format", "why"), tuple(found.missing.items())),)))
    sections.append(Section("Machine", (Table(("", ""), rows),)))
    return Page("Formats compared", f"yolofast {__version__}, {device}", tuple(sections))
