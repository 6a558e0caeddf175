"""`yolofast tracksweep`: tracker settings searched on all cores, from detections that were made once."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType

from yolofast.config.flags import from_args
from yolofast.config.sequences import TracksweepConfig
from yolofast.errors import UserError
from yolofast.extensions import found as imported
from yolofast.files.atomic_file import write_output
from yolofast.files.own_file import mark, refuse_foreign
from yolofast.interrupts import INTERRUPTED, exit_code
from yolofast.pages.html import render_page
from yolofast.report.tracks.sweep_page import COLUMNS, DEFAULTS, MATCH_THRESH, how_to_use, page_of, verdicts
from yolofast.terminal.console import console, folded, table
from yolofast.track.formats.sequence import Floats
from yolofast.track.selection import refuse_higher, refuse_without_features
from yolofast.track.sweep.figures import FIGURES, figures_of, shown_figure
from yolofast.track.sweep.findings import Findings, find_out
from yolofast.track.sweep.inputs import read_stored, read_truth, scenes_of, without_camera
from yolofast.track.sweep.outputs import write_results
from yolofast.track.sweep.scene import Scene
from yolofast.track.sweep.search import Search, cores, run_search
from yolofast.track.sweep.space import (
    NMS,
    TRACKER,
    Trial,
    are_usual,
    drawn,
    grid,
    parse_space,
    searched_names,
    shown_value,
    with_usual,
    words_of,
)
from yolofast.words import clock, counted, duration

MADE_BY = "yolofast tracksweep"
_OF_CHECKPOINTS = "yolofast.commands.tracksweep_weights:run"
_LISTED = 10
_EVERY = 30.0
"""Seconds between lines of progress where there is no terminal."""


def run(args: argparse.Namespace) -> int | None:
    config = from_args(TracksweepConfig, args)
    if config.html is not None:
        if Path(config.html).suffix.lower() not in (".html", ".htm"):
            raise UserError(f"--html is {config.html}", fix="name a file that ends in .html")
        refuse_foreign(Path(config.html), MADE_BY)
    try:
        return _run(config)
    except KeyboardInterrupt as end:
        kept = str(end) or f"what is done is kept in {config.output}"
        print(f"{INTERRUPTED}: {kept}; the same command continues", file=sys.stderr)
        return exit_code()


def _run(config: TracksweepConfig) -> int | None:
    space = parse_space(config.values, config.settings, config.tracker)
    trials = grid(space) if config.random is None else drawn(space, config.random, config.seed)
    if config.weights is not None:  # torch takes seconds to import
        if space.usual and config.random is None:
            trials = [{TRACKER: name} for name in space.trackers]
        code: int | None = imported(_OF_CHECKPOINTS)(config, space, trials)
        return code
    given = read_truth(config.data, config.truth, config.sequences, skip_bad=config.skip_bad)
    scores = None if config.score_range is None else (config.score_range[0], config.score_range[1])
    stored, remarks = read_stored(given, config.detections, skip_bad=config.skip_bad, scores=scores)
    for one in stored.values():
        refuse_higher(one, [trial.get(NMS) for trial in trials], NMS)
        if any(trial.get("with_reid") for trial in trials):
            refuse_without_features(one)
    trials = without_camera(with_usual(trials, space.trackers), stored.values())
    scenes = scenes_of(given, stored, config.benchmark, config.classes)
    out = console()
    for remark in (*given.remarks, *remarks):
        out.print(f"remark: {remark}", soft_wrap=True)
    found = searched(config, trials, scenes, Path(config.output), out)
    written = write_results(Path(config.output), found)
    if config.html is not None:
        title = f"Tracker settings on {Path(str(config.data or config.truth)).name}"
        page = page_of(found, title, (*given.remarks, *remarks))
        written.append(write_output(config.html, (render_page(page) + mark(MADE_BY)).encode("utf-8", errors="replace")))
    print_findings(out, found)
    out.print(f"written: {', '.join(map(str, written))}", soft_wrap=True)
    return None


def searched(
    config: TracksweepConfig, trials: Sequence[Trial], scenes: Sequence[Scene], folder: Path, out: Console
) -> Findings:
    search = Search(tuple(scenes), tuple(trials), config.faithful)
    progress = SearchLine(out, config.by)
    workers = config.workers or cores()
    frames = sum(scene.truth.length for scene in scenes)
    usual = sum(are_usual(trials))
    among = f"{'defaults' if usual == len(trials) else 'the defaults among them'}; " if usual else ""
    out.print(
        f"{counted(len(trials), 'setting')} on {counted(len(scenes), 'sequence')} of {frames:,} frames, "
        f"{counted(workers, 'process')}; {among}results grow in {folder}",
        soft_wrap=True,
    )
    try:
        found = run_search(search, folder, workers, progress, progress.know)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{counted(progress.done, 'setting')} recorded in {folder}") from None
    finally:
        progress.end_line()
    progress.sum_up()
    return find_out(found, config.by)


class SearchLine:
    """A line that is written over on a terminal; elsewhere a line now and then."""

    def __init__(self, out: Console, by: str) -> None:
        self._out, self._by = out, by
        self._start = self._last = time.monotonic()
        self._first: int | None = None
        self._best: float | None = None
        self.done = 0

    def know(self, rows: Floats) -> None:
        """Of a setting, also of one that an earlier call has recorded."""
        value, lower = figures_of(rows)[self._by], FIGURES[self._by].lower_is_better
        if self._best is None or (value < self._best if lower else value > self._best):
            self._best = value
        self.done += 1

    def __call__(self, done: int, count: int, trial: Trial, rows: Floats) -> None:
        self.know(rows)
        now, best = time.monotonic(), shown_figure(self._by, self._best or 0.0)
        self._first = done - 1 if self._first is None else self._first
        pace = (done - self._first) / max(now - self._start, 1e-9)
        left = clock((count - done) / pace)
        text = f"{done:,} of {count:,} settings, {pace:.1f} a second, {left} left, best {self._by} {best}"
        if sys.stdout.isatty():
            self._out.control(Control(ControlType.CARRIAGE_RETURN))
            self._out.print(f"{text}   ", end="")
        elif now - self._last > _EVERY:
            self._out.print(text)
            self._last = now

    def end_line(self) -> None:
        if self._first is not None and sys.stdout.isatty():
            self._out.print()

    def sum_up(self) -> None:
        if self._first is not None:
            took = time.monotonic() - self._start
            self._out.print(f"{counted(self.done - self._first, 'setting')} in {duration(took)}")


def print_findings(out: Console, found: Findings) -> None:
    names = list(dict.fromkeys([TRACKER, *searched_names(found.trials)]))
    listing = table(*names, *(f">{name}" for name in COLUMNS))
    first = found.order[:_LISTED]
    listed = (*first, *(one.trial for one in found.defaults if one.trial not in first))
    for place in listed:
        trial, mark = found.trials[place], f", {DEFAULTS}" if place in found.usual else ""
        shown = {**trial, TRACKER: f"{trial[TRACKER]}{mark}"}
        listing.add_row(*_row(shown, names, {name: found.figures[name][place] for name in COLUMNS}))
    out.print()
    out.print(folded(listing))
    if len(found.trials) > len(listed):
        out.print(f"… and {len(found.trials) - len(listed):,} more in results.csv")
    out.print()
    mark = f", its {DEFAULTS}" if found.best in found.usual else ""
    out.print(f"best by {found.by}: {words_of(found.trials[found.best])}{mark}", soft_wrap=True)
    out.print(f"to use it: {how_to_use(found.trials[found.best]).splitlines()[0]}", soft_wrap=True)
    for kind, text in verdicts(found):
        out.print(f"{kind}: {text}", soft_wrap=True)
    for effect in found.effects:
        values = ", ".join(f"{one.value}: {shown_figure(found.by, one.mean)}" for one in effect.values)
        out.print(f"effect of {effect.name} on {found.by}, on average: {values}", soft_wrap=True)
    if any(effect.name == "match_thresh" for effect in found.effects):
        out.print(f"note: {MATCH_THRESH}", soft_wrap=True)
    front = counted(len(found.front), "setting")
    out.print(f"Pareto front of HOTA, IDSW, MOTA and FP: {front}, marked in results.csv")


def _row(trial: Trial, names: Sequence[str], figures: dict[str, Any]) -> list[str]:
    settings = [shown_value(trial[name]) if name in trial else "" for name in names]
    return [*settings, *(shown_figure(name, float(figures[name])) for name in COLUMNS)]
