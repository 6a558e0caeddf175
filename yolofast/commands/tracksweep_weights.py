"""`yolofast tracksweep --weights`: which checkpoint to ship, by how it tracks beside its mAP."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from yolofast.commands.tracksweep import MADE_BY, searched
from yolofast.config.sequences import TracksweepConfig
from yolofast.files.atomic_file import write_output
from yolofast.files.own_file import mark, refuse_foreign
from yolofast.pages.elements import Page, Section, Table
from yolofast.pages.html import render_page
from yolofast.report.diagnose.tracked_epochs import agreement_elements
from yolofast.runs.layout import FILES, MAP
from yolofast.runs.reader import RunFolder
from yolofast.runs.tracking import Agreement
from yolofast.terminal.console import console, table
from yolofast.track.sweep.checkpoints import (
    Checkpoint,
    DetectWith,
    TrackedCheckpoint,
    detect,
    read_checkpoints,
    write_tracking,
)
from yolofast.track.sweep.figures import shown_figure
from yolofast.track.sweep.inputs import read_truth, scenes_of
from yolofast.track.sweep.space import NMS, SettingRange, Space, Trial, with_usual, words_of
from yolofast.words import counted

_USUAL_OVERLAP = 0.7
_DIGEST = 16
_COLUMNS = ("HOTA", "IDF1", "MOTA", "IDSW", "FP", "FN")


def run(config: TracksweepConfig, space: Space, trials: Sequence[Trial]) -> int | None:
    out = console()
    if len(trials) > 1:  # otherwise all are tracked with the one that is given
        trials = with_usual(trials, space.trackers)
    assert config.weights is not None
    checkpoints = read_checkpoints(config.weights)
    for one in checkpoints:
        if one.run is not None:
            refuse_foreign(one.run / FILES.tracking, MADE_BY)
    given = read_truth(config.data, config.truth, config.sequences, skip_bad=config.skip_bad)
    for remark in given.remarks:
        out.print(f"remark: {remark}", soft_wrap=True)
    how = DetectWith(
        iou=_stored_overlap(space), size=config.img_size, cfg=config.cfg, device=config.device, batch=config.batch_size
    )
    folder = Path(config.output)
    tracked = []
    for one in checkpoints:
        stored = detect(one, given.sources, folder, how, lambda text: out.print(text, soft_wrap=True))
        scenes = scenes_of(given, stored, config.benchmark, config.classes)
        own = folder / "checkpoints" / f"{one.digest[:_DIGEST]}-{how.key()}"
        tracked.append(TrackedCheckpoint(one, searched(config, trials, scenes, own, out)))
    about = {
        "by": config.by, "sequences": list(given.truth), "benchmark": config.benchmark, "retuned": len(trials) > 1,
        "faithful": config.faithful, "detected_with": how.key(), "truth": given.digest(), "searched": list(trials),
    }  # fmt: skip
    written = write_tracking(tracked, about)
    runs = dict.fromkeys(one.run for one in checkpoints if one.run is not None)
    agreements = {run: RunFolder(run).tracking_and_map() for run in runs}
    _print(out, tracked, agreements, config.by)
    if config.html is not None:
        page = _page(tracked, agreements, config.by)
        written.append(write_output(config.html, (render_page(page) + mark(MADE_BY)).encode("utf-8", errors="replace")))
    if written:
        out.print(f"written: {', '.join(map(str, written))}", soft_wrap=True)
    return None


def _stored_overlap(space: Space) -> float:
    """Candidates are stored with the highest threshold that is asked for, so that lower ones can be tried."""
    given = space.values.get(NMS, ())
    asked = (given.high,) if isinstance(given, SettingRange) else given
    return max([_USUAL_OVERLAP, *(float(one) for one in asked if isinstance(one, int | float))])


def _rows(tracked: Sequence[TrackedCheckpoint], by: str) -> list[list[Any]]:
    """Names, epoch, mAP50-95 where it is known, scores, the interval and the settings."""
    rows = []
    for one in tracked:
        scores, interval = one.scores(), one.found.interval
        ends = "" if interval is None else " – ".join(shown_figure(by, end) for end in interval)
        figures = [shown_figure(name, scores[name]) for name in dict.fromkeys((by, *_COLUMNS))]
        epoch = "" if one.checkpoint.epoch is None else str(one.checkpoint.epoch)
        rows.append([_name(one.checkpoint), epoch, _map(one.checkpoint), *figures, ends, words_of(one.settings)])
    return rows


def _titles(by: str) -> list[str]:
    return ["weights", "epoch", "mAP50-95", *dict.fromkeys((by, *_COLUMNS)), f"{by}, 95 %", "settings"]


def _name(checkpoint: Checkpoint) -> str:
    return checkpoint.path.name if checkpoint.run is None else f"{checkpoint.run.name}/{checkpoint.path.name}"


def _map(checkpoint: Checkpoint) -> str:
    if checkpoint.run is None or checkpoint.epoch is None:
        return ""
    folder = RunFolder(checkpoint.run)
    found = folder.column(MAP.name)[folder.epochs() == checkpoint.epoch]
    return f"{100 * found[0]:.3f}" if len(found) else ""


def _print(
    out: Console, tracked: Sequence[TrackedCheckpoint], agreements: dict[Path, Agreement | None], by: str
) -> None:
    first, *rest = _titles(by)
    listing = table(first, *(f">{title}" for title in rest[:-1]), rest[-1])
    for row in _rows(tracked, by):
        listing.add_row(*row)
    out.print()
    out.print(listing)
    out.print()
    for run, found in agreements.items():
        for line in () if found is None else found.words():
            out.print(f"{run.name}: {line}", soft_wrap=True)
    if any(len(one.found.trials) > 1 for one in tracked):
        out.print("note: each checkpoint has the settings that are best for it on these same sequences", soft_wrap=True)


def _page(tracked: Sequence[TrackedCheckpoint], agreements: dict[Path, Agreement | None], by: str) -> Page:
    sections = [
        Section("Checkpoints", (Table(tuple(_titles(by)), tuple(map(tuple, _rows(tracked, by))), sortable=True),))
    ]
    for run, found in agreements.items():
        if found is not None:
            sections.append(Section(f"Run {run.name}", tuple(agreement_elements(found))))
    subtitle = f"{counted(len(tracked), 'checkpoint')}, chosen by {by}; shares in percent"
    return Page("Which checkpoint tracks best", subtitle, tuple(sections))
