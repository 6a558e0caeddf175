"""The page of `yolofast trackval`: figures, HOTA by overlap, identities over time, where and why they switch."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from yolofast.pages.elements import (
    Callout,
    Cell,
    Element,
    Figures,
    LineChart,
    Page,
    Paragraph,
    Picture,
    Section,
    Series,
    Table,
)
from yolofast.report.tracks.crops import FrameImages, picture_of_miss, picture_of_switch
from yolofast.report.tracks.objects import FollowedObject, objects_of, timeline, worst
from yolofast.report.tracks.switches import CAUSES, Switch, explain
from yolofast.track.score.combine import Scores
from yolofast.track.score.scores import TrackScores
from yolofast.words import counted

COLUMNS = (
    "HOTA", "DetA", "AssA", "LocA", "MOTA", "MOTP", "IDF1", "IDP", "IDR", "IDSW", "Frag", "MT", "PT", "ML",
    "CLR_FP", "CLR_FN", "GT_IDs", "IDs",
)  # fmt: skip
"""Of the tables, here and in the terminal."""
TITLES = {"CLR_FP": "FP", "CLR_FN": "FN", "GT_IDs": "objects", "IDs": "tracks"}
"""What people call them."""
COUNTED = {"IDSW", "Frag", "MT", "PT", "ML", "CLR_FP", "CLR_FN", "GT_IDs", "IDs"}
AVERAGES = {
    "classes that have truth": "class_average_of_truth",
    "all classes, as TrackEval": "class_average",
    "all boxes alike": "detection_average",
    "classes ignored": "class_agnostic",
}
"""How the averages are called, and what they are of `TrackScores`."""
_SHOWN_FIRST = ("HOTA", "DetA", "AssA", "MOTA", "IDF1", "IDSW")
_CURVES = ("HOTA", "DetA", "AssA", "LocA")
_MOST_SEQUENCES, _MOST_OBJECTS, _MOST_SWITCHES, _MOST_PICTURES, _MOST_MISSES, _WORST = 12, 30, 200, 16, 8, 20


def explained(scores: TrackScores) -> list[Switch]:
    """Every switch with what was there when it happened."""
    return [
        explain(event, scores.evidence[event.sequence][0]) for event in scores.frame_events if event.kind == "switched"
    ]


def page_of(scores: TrackScores, title: str, switches: list[Switch], images: Path | None = None) -> Page:
    objects = {name: objects_of(name, *found) for name, found in scores.evidence.items()}
    pictures = None if images is None else FrameImages(images, len(scores.sequences))
    sections = (
        Section("Summary", tuple(_summary(scores))),
        Section("Over the overlap", tuple(_curves(scores))),
        Section("Classes", tuple(_classes(scores))),
        Section("Where and why identities switched", tuple(_switches(switches))),
        Section("The switches in pictures", tuple(_pictures(switches, scores, pictures))),
        Section("The longest misses in pictures", tuple(_misses(objects, scores, pictures))),
        Section("Identities over time", tuple(_timelines(objects, scores))),
        Section("The worst objects", tuple(_worst(objects))),
    )
    count = counted(len(scores.sequences), "sequence")
    subtitle = (
        f"{count}, benchmark {scores.benchmark}; shares in per cent; frames count from 1; CLEAR, Identity and events "
        "at an overlap of 0.5"
    )
    return Page(title, subtitle, tuple(section for section in sections if section.elements))


def row_of(name: str, scores: Scores) -> tuple[Cell, ...]:
    return name, *(_figure(column, scores) for column in COLUMNS)


def _columns(first: str) -> tuple[str, ...]:
    return first, *(TITLES.get(name, name) for name in COLUMNS)


def _figure(name: str, scores: Scores) -> float:
    """Shares in per cent, as the terminal has them."""
    return int(scores[name]) if name in COUNTED else 100 * scores[name]


def class_title(label: int, scores: TrackScores) -> str:
    return f"{label} {scores.class_names.get(label, '')}".strip()


def _summary(scores: TrackScores) -> Iterator[Element]:
    combined = scores.combined
    yield Figures(tuple((name, _figure(name, combined)) for name in _SHOWN_FIRST))
    for remark in scores.remarks:
        yield Callout("warn", remark)
    rows = [row_of(name, one) for name, one in scores.sequences.items()]
    if len(rows) > 1:
        rows.append(row_of("all together", combined))
    yield Table(_columns("sequence"), tuple(rows), sortable=len(rows) > 2)


def _curves(scores: TrackScores) -> Iterator[Element]:
    alphas = tuple(round(float(alpha), 2) for alpha in scores.combined.alphas)

    def curve(title: str, one: Scores, name: str) -> Series:
        return Series(title, alphas, tuple((100 * one.per_alpha(name)).tolist()))

    parts = tuple(curve(name, scores.combined, name) for name in _CURVES)
    hint = (
        "The figures above are means over these 19 overlaps. DetA: objects found; AssA: kept apart; LocA: boxes exact."
    )
    yield LineChart("HOTA and its parts over the overlap", "overlap (alpha)", "per cent", parts, hint=hint)
    if 1 < len(scores.sequences) <= _MOST_SEQUENCES:
        each = tuple(curve(name, one, "HOTA") for name, one in scores.sequences.items())
        yield LineChart("HOTA of each sequence", "overlap (alpha)", "HOTA, per cent", each)


def _classes(scores: TrackScores) -> Iterator[Element]:
    if scores.classes is None:
        return
    rows = tuple(row_of(class_title(label, scores), one) for label, one in scores.per_class.items())
    yield Table(_columns("class"), rows, "Truth and results of one class each", sortable=True)
    averages = tuple(row_of(name, getattr(scores, attribute)) for name, attribute in AVERAGES.items())
    yield Table(_columns("average over"), averages)
    if any(one["GT_Dets"] == 0 for one in scores.per_class.values()):
        yield Paragraph(
            "A class without truth that is seen falsely has a MOTA of minus its boxes; TrackEval's average contains it."
        )


def causes_of(switches: Sequence[Switch]) -> dict[str, int]:
    """How often each cause was there, those that were."""
    counts = Counter(one.cause for one in switches)
    return {cause: counts[cause] for cause in CAUSES if counts[cause]}


def _switches(switches: list[Switch]) -> Iterator[Element]:
    if not switches:
        yield Callout("good", "No identity switched.")
        return
    rows = tuple((cause, count, CAUSES[cause]) for cause, count in causes_of(switches).items())
    yield Table(("cause", "switches", "what was there"), rows, "Named by the first that applies")
    shown = sorted(switches, key=lambda one: (one.event.sequence, one.event.frame))[:_MOST_SWITCHES]
    caption = "" if len(shown) == len(switches) else f"The first {len(shown)} of {len(switches):,}; --json has all. "
    caption += "From which result to which; for how many frames it was unseen; how much of it another object covered."
    columns = ("sequence", "frame", "object", "from", "to", "cause", "unseen", "covered, %", "by", "moved, px",
               "the former result")  # fmt: skip
    yield Table(columns, tuple(_switch_row(one) for one in shown), caption, sortable=True)


def _switch_row(one: Switch) -> tuple[Cell, ...]:
    event = one.event
    by = None if one.covered_by is None else str(one.covered_by)
    return (
        event.sequence, event.frame, event.truth_id, event.from_id, event.to_id, one.cause, one.gap,
        round(100 * one.covered), by, round(one.moved, 1), one.former,
    )  # fmt: skip


def _pictures(switches: list[Switch], scores: TrackScores, images: FrameImages | None) -> Iterator[Element]:
    """Of the objects that switch most; each is shown twice at most."""
    if images is None or not switches:
        return
    often = Counter((one.event.sequence, one.event.truth_id) for one in switches)
    seen: Counter[tuple[str, int]] = Counter()
    pictures: list[Picture] = []
    for one in sorted(switches, key=lambda one: -often[one.event.sequence, one.event.truth_id]):
        key = one.event.sequence, one.event.truth_id
        if seen[key] >= 2 or len(pictures) >= _MOST_PICTURES:
            continue
        seen[key] += 1
        picture = picture_of_switch(one, scores.evidence[one.event.sequence][0], images)
        pictures += [] if picture is None else [picture]
    yield from _shown(pictures, images, "Blue: the object, as the truth has it. Orange: the result that follows it.")


def _misses(
    objects: dict[str, list[FollowedObject]], scores: TrackScores, images: FrameImages | None
) -> Iterator[Element]:
    if images is None:
        return
    missed = [one for found in objects.values() for one in found if one.matched < len(one.result)]
    missed.sort(key=lambda one: one.longest_miss[0] - one.longest_miss[1])
    given = scores.evidence
    pictures = [picture_of_miss(one, given[one.sequence][0], images) for one in missed[:_MOST_MISSES]]
    hint = "When it was matched before, and in the middle of the miss. Blue: the object. Orange: a result."
    yield from _shown([one for one in pictures if one is not None], images, hint)


def _shown(pictures: list[Picture], images: FrameImages, hint: str) -> Iterator[Element]:
    """Also what could not be read, once."""
    for problem in images.take_problems()[:5]:
        yield Callout("warn", problem)
    if pictures:
        yield Paragraph(hint)
        yield from pictures


def _timelines(objects: dict[str, list[FollowedObject]], scores: TrackScores) -> Iterator[Element]:
    shown = list(objects)[:_MOST_SEQUENCES]
    if len(shown) < len(objects):
        yield Paragraph(f"The first {len(shown)} of {len(objects)} sequences.")
    for name in shown:
        chosen = worst(objects[name], _MOST_OBJECTS)
        chosen.sort(key=lambda one: (int(one.frames[0]), one.id))
        left_out = len(objects[name]) - len(chosen)
        hint = f"The {len(chosen)} worst; {left_out:,} more are followed better." if left_out else ""
        hint += " A colour is the first, second … result that follows an object; a thin line: nobody does."
        if chosen:
            yield timeline(name, chosen, scores.evidence[name][0].truth.length, hint.strip())


def _worst(objects: dict[str, list[FollowedObject]]) -> Iterator[Element]:
    """Objects that nothing is wrong with are not among them."""
    every = [one for found in objects.values() for one in found]
    chosen = [one for one in worst(every, _WORST) if one.longest < len(one.result)]
    rows = tuple(
        (
            one.sequence, one.id, len(one.result), 100 * one.share, 100 * one.longest / len(one.result),
            len(one.results), one.switches, f"{one.frames[0]}–{one.frames[-1]}",
        )
        for one in chosen
    )  # fmt: skip
    if not rows:
        yield Callout("good", "Every object is followed by one result from beginning to end.")
        return
    columns = ("sequence", "object", "boxes", "followed, %", "by one result, %", "results", "switches", "frames")
    caption = "By boxes without the result that follows the object longest. Followed: share of its boxes with any."
    yield Table(columns, rows, caption, sortable=True)
