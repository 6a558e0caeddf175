"""The page of `yolofast tracksweep`: the best setting and how sure that is, trade-offs, and what each setting does."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from yolofast.pages.elements import (
    Callout,
    Cell,
    Code,
    Element,
    Figures,
    LineChart,
    Marked,
    Page,
    Paragraph,
    Point,
    ScatterChart,
    Section,
    Series,
    Table,
)
from yolofast.track.formats.sequence import Floats
from yolofast.track.sweep.figures import FIGURES, figures_of, shown_figure, worth
from yolofast.track.sweep.findings import FRONT, Findings, SettingEffect, front_of
from yolofast.track.sweep.outputs import names_of
from yolofast.track.sweep.space import (
    CLASSES,
    CONF,
    NMS,
    OF_DETECTIONS,
    TRACKER,
    Trial,
    searched_names,
    shown_value,
    words_of,
)
from yolofast.words import counted

COLUMNS = ("HOTA", "DetA", "AssA", "MOTA", "IDF1", "IDSW", "Frag", "FP", "FN", "MT", "ML", "tracks")
MATCH_THRESH = (
    "match_thresh is the greatest cost a match may have, not the least overlap: higher is more permissive. The cost is "
    "1 − IoU × score, so a detection matches from an IoU of (1 − match_thresh) / score on. With mot20 the score does "
    "not count."
)
DEFAULTS = "defaults"
_PLANES = (("IDSW", "HOTA"), ("FP", "MOTA"))
_LISTED, _MOST_POINTS, _MOST_FRONT = 30, 1500, 60
_SCORES = (0.9, 0.6)


def page_of(found: Findings, title: str, remarks: Sequence[str] = ()) -> Page:
    sections = (
        Section("The best setting", tuple(_best(found, remarks))),
        Section("What each setting does", tuple(_effects(found))),
        Section("Trade-offs", tuple(_front(found))),
        Section("The best settings", tuple(_listing(found))),
        Section("Sequences", tuple(_sequences(found))),
    )
    count = counted(len(found.trials), "setting")
    subtitle = (
        f"{count} on {counted(len(found.searched.sequences), 'sequence')}, chosen by {found.by}; shares in percent; "
        "IDSW, FP and FN are counts"
    )
    return Page(title, subtitle, tuple(section for section in sections if section.elements))


def verdicts(found: Findings) -> Iterator[tuple[str, str]]:
    """What to think of the best setting: a kind of callout and its text, for the page and the terminal."""
    by, sequences = found.by, len(found.searched.sequences)
    if found.interval is None:
        yield "warn", "One sequence says nothing about others: how sure this is cannot be known. Add sequences."
    else:
        low, high = (shown_figure(by, value) for value in found.interval)
        kept = f"; it is the best in {found.share_best:.0%} of the samples" if found.share_best is not None else ""
        yield "note", f"{by} is {low} to {high} (95 %) over samples of the {sequences} sequences{kept}."
    if found.as_good:
        others = f"{counted(len(found.as_good), 'setting')} cannot be told from it by these sequences."
        yield "note", f"{others} Of those, take the one that suits other needs: fewer switches, fewer false tracks."
    if found.left_out is not None:
        expected = f"expect {by} {shown_figure(by, found.left_out)} on sequences it was not chosen on"
        yield "note", f"So {expected}: each sequence scored with what is best on the others."
    if found.best in found.usual:
        tracker = found.trials[found.best][TRACKER]
        yield "note", f"Nothing that was tried has a better {by} than {tracker} as it comes: keep its defaults."
    for one in found.defaults:
        if one.trial == found.best:
            continue
        name = found.trials[one.trial][TRACKER]
        sign = "+" if one.value >= 0 else "−"
        size = shown_figure(by, abs(one.value))
        sure = ""
        if one.interval is not None:
            ends = [("+" if end >= 0 else "−") + shown_figure(by, abs(end)) for end in one.interval]
            sure = f" ({ends[0]} to {ends[1]})"
        kind = "good" if one.value > 0 and (one.interval is None or one.interval.low > 0) else "note"
        yield kind, f"Against {name} as it comes: {sign}{size} {by}{sure}; + is better."


def how_to_use(trial: Trial) -> str:
    """The settings as they are typed, and as Python gets them."""
    given = {name: value for name, value in trial.items() if name not in (TRACKER, CLASSES, *OF_DETECTIONS)}
    flags = f" --track {' '.join(f'{name}={shown_value(value)}' for name, value in given.items())}" if given else ""
    for name, flag in ((CONF, "--conf"), (NMS, "--iou"), (CLASSES, "--class-handling")):
        flags += f" {flag} {shown_value(trial[name])}" if trial.get(name) is not None else ""
    given |= {CLASSES: trial[CLASSES]} if CLASSES in trial else {}
    words = "".join(f", {name}={value!r}" for name, value in given.items())
    tracker = trial[TRACKER]
    return (
        f"yolofast track --source VIDEO --weights FILE --tracker {tracker}{flags}\n"
        f"tracker = yolofast.build_tracker({tracker!r}{words})"
    )


def _best(found: Findings, remarks: Sequence[str]) -> Iterator[Element]:
    shown = dict.fromkeys((found.by, "HOTA", "IDF1", "MOTA", "IDSW", "FP"))
    yield Figures(tuple((name, shown_figure(name, float(found.figures[name][found.best]))) for name in shown))
    yield Code(how_to_use(found.trials[found.best]))
    for kind, text in verdicts(found):
        yield Callout(kind, text)  # type: ignore[arg-type]
    for remark in remarks:
        yield Callout("warn", remark)


def _effects(found: Findings) -> Iterator[Element]:
    if not found.effects:
        return
    yield Paragraph(
        f"Mean and best of {found.by} over all settings with a value, whatever the others are. A mean says what a "
        "value does usually; the best says what it can reach."
    )
    rows = tuple((effect.name, _range(effect), *_extremes(effect, found.by)) for effect in found.effects)
    yield Table(("setting", "values", "worst on average", "best on average", "difference"), rows, sortable=True)
    for effect in found.effects:
        yield from _effect(effect, found.by)
    if any(effect.name == "match_thresh" for effect in found.effects):
        yield Callout("note", MATCH_THRESH)
        values = [one for effect in found.effects if effect.name == "match_thresh" for one in effect.values]
        known = [(one.value, one.number) for one in values if one.number is not None]
        least: list[tuple[Cell, ...]] = [
            (title, *(max(0.0, (1 - number) / score) for score in _SCORES)) for title, number in known
        ]
        yield Table(("match_thresh", *(f"least IoU at score {score}" for score in _SCORES)), tuple(least))


def _effect(effect: SettingEffect, by: str) -> Iterator[Element]:
    scale = 1 if FIGURES[by].is_count else 100
    numbers = [one.number for one in effect.values if one.number is not None]
    if len(numbers) == len(effect.values) > 1:
        lines = tuple(
            Series(name, tuple(numbers), tuple(scale * getattr(one, key) for one in effect.values), name, dashed=dashed)
            for name, key, dashed in (("mean", "mean", False), ("best", "best", True))
        )
        yield LineChart(f"{by} over {effect.name}", effect.name, by, lines)
        return
    rows = tuple((one.value, one.count, scale * one.mean, scale * one.best, one.switches) for one in effect.values)
    yield Table((effect.name, "settings", f"{by}, mean", f"{by}, best", "IDSW, mean"), rows)


def _range(effect: SettingEffect) -> str:
    return ", ".join(one.value for one in effect.values)


def _extremes(effect: SettingEffect, by: str) -> tuple[Cell, ...]:
    values = sorted(effect.values, key=lambda one: float(worth(by, np.array(one.mean))))
    ends = (f"{one.value}: {shown_figure(by, one.mean)}" for one in (values[0], values[-1]))
    scale = 1 if FIGURES[by].is_count else 100
    return *ends, round(scale * effect.size, 3)


def _front(found: Findings) -> Iterator[Element]:
    shown = _shown(found)
    differing = searched_names(found.trials)
    trackers = {trial[TRACKER] for trial in found.trials}
    order = " / ".join(differing) if len(trackers) == 1 else "settings as in the table"
    beside = f"; at the points: {order}" if differing else ""
    for across, up in _PLANES:
        x, y = (found.figures[name][shown] * (1 if FIGURES[name].is_count else 100) for name in (across, up))
        on_front = set(front_of(np.stack((-x, y), axis=1)).tolist())
        points = tuple(
            Point(
                words_of(found.trials[place]),
                float(x[at]),
                float(y[at]),
                str(found.trials[place][TRACKER]),
                at in on_front,
                DEFAULTS if place in found.usual else _values(found.trials[place], differing),
            )
            for at, place in enumerate(shown.tolist())
        )
        yield ScatterChart(f"{up} and {across}; the line is the Pareto front{beside}", across, up, points)
    caption = (
        f"No other setting is at least as good in all of {', '.join(FRONT)} and better in one. "
        f"{counted(len(found.front), 'setting')}; of equal ones the first."
    )
    front = sorted(found.front, key=lambda place: -float(worth(found.by, found.figures[found.by])[place]))
    yield _table(found, front[:_MOST_FRONT], caption)


def _values(trial: Trial, names: Sequence[str]) -> str:
    """Short enough to be read beside a point: only what differs between settings."""
    return " / ".join(shown_value(trial[name]) for name in names if name in trial and name != TRACKER)


def _shown(found: Findings) -> Any:
    """Places of settings to draw: all on the front, and of very many some."""
    count = len(found.trials)
    some = np.linspace(0, count - 1, min(count, _MOST_POINTS)).round().astype(int)
    return np.unique(np.concatenate((some, np.array(found.front, int))))


def _listing(found: Findings) -> Iterator[Element]:
    order = found.order[:_LISTED]
    as_good = set(found.as_good)
    caption = f"The first {len(order)} of {len(found.trials):,}; results.csv has all. " * (
        len(found.trials) > len(order)
    )
    caption += "Marked: they cannot be told from the best one." * bool(as_good)
    yield _table(found, order, caption.strip(), as_good | {found.best})


def _table(
    found: Findings, places: Sequence[int], caption: str, marked: set[int] | frozenset[int] = frozenset()
) -> Table:
    names = names_of(found.trials)
    rows = tuple(
        (
            *_settings(found, place, names, place in marked),
            *(_cell(name, found.figures[name], place) for name in COLUMNS),
        )
        for place in places
    )
    return Table((*names, *COLUMNS), rows, caption, sortable=True)


def _settings(found: Findings, place: int, names: Sequence[str], marked: bool) -> list[Cell]:
    trial = found.trials[place]
    cells: list[Cell] = [shown_value(trial[name]) if name in trial else "" for name in names]
    cells[0] = f"{cells[0]}, {DEFAULTS}" if place in found.usual else cells[0]
    if marked:
        cells[0] = Marked(str(cells[0]), "best", "cannot be told from the best one")
    return cells


def _cell(name: str, values: Floats, place: int) -> Cell:
    value = float(values[place])
    return round(value) if FIGURES[name].is_count else round(100 * value, 3)


def _sequences(found: Findings) -> Iterator[Element]:
    searched, tracker = found.searched, found.trials[found.best][TRACKER]
    usual = next((place for place in sorted(found.usual) if found.trials[place][TRACKER] == tracker), None)
    rows = []
    for place, name in enumerate(searched.sequences):
        own = figures_of(searched.rows[found.best, place : place + 1])
        before = None if usual is None else figures_of(searched.rows[usual, place : place + 1])[found.by]
        scale = 1 if FIGURES[found.by].is_count else 100
        rows.append(
            (name, *(_cell(one, np.array([own[one]]), 0) for one in COLUMNS),
             None if before is None else round(scale * before, 3))
        )  # fmt: skip
    yield Table(
        ("sequence", *COLUMNS, f"{found.by} of the defaults"), tuple(rows), "With the best setting", sortable=True
    )
