"""A comparison as a page: what to conclude first, then figures, differences, curves, money, and what supports them."""

from collections.abc import Iterator

from yolofast.pages.elements import Callout, Cell, Element, Figures, Marked, Page, Paragraph, Section, Table
from yolofast.report.compare import words
from yolofast.report.compare.charts import bar_chart, class_elements, cost_chart, curve_charts, time_chart
from yolofast.report.compare.comparison import Comparison
from yolofast.report.compare.conclusion import BETTER, CAUTION
from yolofast.report.compare.consistency import CONTRADICTION, NOT_COMPARABLE
from yolofast.report.compare.figures import ComparedRow, Spread
from yolofast.report.diagnose.statistics import CALM, STEADY
from yolofast.report.diagnose.tracked_epochs import tracking_elements
from yolofast.runs.layout import FILES, MAP, MAP50, SPEED, TERMS, metrics
from yolofast.runs.tracking import Agreement

_HEADLINES = (MAP50.title, MAP.title, "hours", SPEED.title, "GPU memory, GiB")
_WARNINGS = (CAUTION, CONTRADICTION, NOT_COMPARABLE)
_SENTENCES = 4
_BEFORE_FIGURES = 6
"""Conclusions and remarks that stand above the table; more would hide it."""


def page_of(found: Comparison) -> Page:
    names = [group.name for group in found.groups]
    subtitle = f"{len(found.runs)} runs; differences are relative to {names[0]}; epochs count from 1"
    sections = (
        Section("Summary", tuple(_summary(found, names))),
        Section("Which to take", tuple(_uses(found))),
        Section("What differs", tuple(_differences(found))),
        Section("Accuracy", tuple(_accuracy(found))),
        Section("Tracking", tuple(tracking_elements(tracking_of(found)))),
        Section("Losses", tuple(_losses(found))),
        Section("The last epochs", tuple(_stability(found))),
        Section("Classes", tuple(class_elements(found, names))),
        Section("Time and money", tuple(_money(found))),
        Section("Where the time goes", tuple(_profiles(found))),
        Section("Checkpoints", tuple(_weights(found))),
        Section("Runs", tuple(_runs(found))),
        Section("Held equal", tuple(_equal(found))),
    )
    title = " · ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"
    return Page(title, subtitle, tuple(section for section in sections if section.elements))


def tracking_of(found: Comparison) -> dict[str, Agreement]:
    """By the names of those runs that were tracked."""
    return {run.name: run.tracking for run in found.runs if run.tracking is not None}


def _summary(found: Comparison, names: list[str]) -> Iterator[Element]:
    if len(names) == 2:
        yield Figures(tuple(_headlines(found, names)))
    said: tuple[Element, ...] = tuple(_callouts(found))
    figures = _summary_table(found, names)
    yield from (*said, figures) if len(said) <= _BEFORE_FIGURES else (figures, *said)


def _callouts(found: Comparison) -> Iterator[Callout]:
    said = [(one.kind, f"{one.kind}: {one.text}.") for one in found.conclusions]
    for kind, text in said + [(one.kind, f"{one.kind}: {one.text}") for one in found.remarks]:
        yield Callout("warn" if kind in _WARNINGS else "good" if kind == BETTER else "note", text)


def _summary_table(found: Comparison, names: list[str]) -> Table:
    titles = (title for name in names[1:] for title in (name, "change"))
    caption = (
        "Accuracies of the best epoch, unless it says otherwise. Kinds with several runs: mean ± standard deviation. "
        f"Changes are from {names[0]}."
    )
    return Table(("", names[0], *titles, "better"), tuple(_summary_row(row, names) for row in found.summary), caption)


def _headlines(found: Comparison, names: list[str]) -> Iterator[tuple[str, Cell]]:
    """Green where the second is better."""
    for row in found.summary:
        if row.name in _HEADLINES and row.change(1) is not None:
            text = words.change(row, 1)
            yield f"{row.name}, {names[1]}", Marked(text, "best") if row.winner == 1 else text


def _summary_row(row: ComparedRow, names: list[str]) -> tuple[Cell, ...]:
    values: list[Cell] = [_figure(value, row.digits) for value in row.values]
    if row.winner is not None:
        values[row.winner] = Marked(_figure(row.values[row.winner], row.digits), "best", f"{row.better} is better")
    pairs = ((value, words.change(row, place)) for place, value in enumerate(values[1:], start=1))
    return row.name, values[0], *(cell for pair in pairs for cell in pair), words.winner(row, names)


def _figure(value: Spread | None, digits: int) -> str | float | None:
    if value is None:
        return None
    return words.spread(value, digits) if value.n > 1 else value.mean


def _uses(found: Comparison) -> Iterator[Element]:
    rows = tuple((one.use, one.take, one.why) for one in found.uses)
    if rows:
        yield Table(("for", "take", "because"), rows)


def _differences(found: Comparison) -> Iterator[Element]:
    columns = ("", "setting", *(run.name for run in found.runs), "matters for")
    if not found.differences.differ:
        yield Paragraph("Nothing that the runs' files say differs.")
    for listed, caption in (
        (found.differences.differ, ""),
        (found.differences.partly, "Said by some of the runs only"),
    ):
        rows = tuple((one.where, one.key, *map(words.setting, one.values), one.kind) for one in listed)
        if rows:
            yield Table(columns, rows, caption, sortable=True)


def _equal(found: Comparison) -> Iterator[Element]:
    equal = tuple((one.where, one.key, words.setting(one.values[0])) for one in found.differences.equal)
    if equal:
        yield Table(("", "setting", "all runs"), equal, f"{len(equal)} settings", sortable=True)


def _accuracy(found: Comparison) -> Iterator[Element]:
    yield from curve_charts(found, [metric.title for metric in metrics()])
    for measure, listed in found.overtakings.items():
        texts = words.overtakings(listed)
        if len(texts) > _SENTENCES:
            yield Table((f"{measure}: who overtakes whom",), tuple((text,) for text in texts))
        else:
            yield from (Paragraph(f"{measure}: {text}.") for text in texts)
    yield from _chosen_epochs(found, losses=False)


def _losses(found: Comparison) -> Iterator[Element]:
    recorded = (name.partition("/")[2] for curve in found.curves for name in curve.mean if "/" in name)
    terms = dict.fromkeys(["total", *TERMS, *recorded])
    yield from curve_charts(found, tuple(f"{side}/{term}" for side in ("train", "val") for term in terms))
    yield from curve_charts(found, ("lr",))
    yield from _chosen_epochs(found, losses=True)


def _chosen_epochs(found: Comparison, *, losses: bool) -> Iterator[Element]:
    for table in found.at_epochs:
        if ("/" in table.column) == losses:
            columns = (table.column, *(f"epoch {epoch}" for epoch in table.epochs))
            pairs = zip(found.curves, table.values, strict=True)
            rows = tuple((curve.name, *(words.number(value, 4) for value in values)) for curve, values in pairs)
            yield Table(columns, rows)


def _stability(found: Comparison) -> Iterator[Element]:
    rows = tuple(
        (one.column, one.group, one.epochs, one.mean, one.std, f"{one.cv:.2%}", f"{one.trend:+.2%}", one.calm)
        for one in found.stability
    )
    if rows:
        columns = ("", "run", "epochs", "mean", "standard deviation", "of the mean", "trend over them", "")
        words_for = f"very stable: a standard deviation below {STEADY:.0%} of the mean, stable: below {CALM:.0%}"
        yield Table(columns, rows, f"At most the last {found.request.last} epochs; {words_for}")


def _money(found: Comparison) -> Iterator[Element]:
    if not found.costs:
        return
    if found.hours_differ:
        yield Paragraph("Not all hours here can be compared with one another; the summary says why.")
    if len(found.costs) > 1:
        yield cost_chart(found)
    yield time_chart(found)
    price, any_front = found.request.price, any(one.on_front for one in found.costs)
    rows: list[tuple[Cell, ...]] = []
    for one in found.costs:
        name = Marked(one.group, "best", "on the Pareto front") if one.on_front else one.group
        front = ("yes" if one.on_front else "no") if any_front else "not comparable"
        figures = (words.fine(one.hours), words.fine(one.cost), one.accuracy, one.accuracy_per_hour)
        rows.append((name, *figures, front))
    cost = "cost" if price is None else f"cost at {price:g} per hour"
    caption = "" if price is not None else "With --price, the price of an hour, costs are given."
    yield Table(("", "hours", cost, "mAP50-95", "per hour", "on the Pareto front"), tuple(rows), caption)
    yield from (Callout("note", words.same_time(one) + ".") for one in found.at_the_same_time)
    if any(one.guess for one in found.at_the_same_time):
        yield Paragraph(
            "An extrapolation takes three families of curves through the end of the run. It is the middle one of those "
            "that guessed this run best from its beginnings. Its range is as wide as its error there, or as those "
            "families differ. A run planned for more epochs has another learning-rate schedule, so only training it "
            "would tell."
        )


def _profiles(found: Comparison) -> Iterator[Element]:
    profiled = [(run.name, run.profile) for run in found.runs if run.profile is not None]
    if not profiled:
        return
    yield bar_chart(profiled)
    rows: dict[str, list[Cell]] = {}
    for place, (_, profile) in enumerate(profiled):
        for phase in profile.phases:
            title = f"{phase.name}, {phase.parallel}" if phase.parallel else phase.name
            cells = rows.setdefault(title, [None] * (2 * len(profiled)))
            cells[2 * place] = words.around(phase.mean_ms, phase.std_ms, 2)
            cells[2 * place + 1] = f"{words.number(100 * phase.share, 1)} %"
    columns = (text for name, _ in profiled for text in (f"{name}, ms", f"{name}, share"))
    yield Table(("phase", *columns), tuple((title, *cells) for title, cells in rows.items()))


def _weights(found: Comparison) -> Iterator[Element]:
    rows: list[tuple[Cell, ...]] = []
    for run in found.runs:
        for file in run.weights:
            never = file.name == FILES.best and not file.stripped and not file.problem
            size = Marked(file.bytes / 1e6, "warn", "never stripped") if never else file.bytes / 1e6
            rows.append((run.name, file.name, size, file.problem or file.contents))
    if rows:
        yield Table(("run", "file", "MB", "what is in it"), tuple(rows))


def _runs(found: Comparison) -> Iterator[Element]:
    kinds = {run.name: group.name for group in found.groups for run in group.runs}
    rows = tuple(
        (
            run.name,
            kinds[run.name] if run.name in kinds else f"left out: {found.left_out[run.name]}",
            run.format,
            len(run.epoch),
            words.number(run.hours, 3),
            run.timing.source + (", epochs taken to be equally long" if run.timing.evenly else ""),
            str(run.folder),
        )
        for run in found.runs
    )
    yield Table(("run", "kind", "written by", "epochs", "hours", "hours are from", "folder"), rows)
