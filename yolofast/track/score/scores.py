"""`score_tracks`: how well results follow the truth, as TrackEval computes it, with the events behind the figures."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from yolofast.errors import UserError, shorten
from yolofast.track.formats.class_names import classes_named, label_of
from yolofast.track.score.clear import Matches, match
from yolofast.track.score.combine import Scores, class_average, combined, score_prepared
from yolofast.track.score.events import FrameEvent, events_of
from yolofast.track.score.inputs import ScoreInputs, paired
from yolofast.track.score.prepare import Benchmark, Prepared, check_benchmark, prepare, why_uncounted

_ALL = "all"


@dataclass(frozen=True, eq=False)
class ClassScores:
    """Averages over classes, each by its own rule; `TrackScores.combined` ignores classes."""

    per_class: Mapping[int, Scores]
    """All sequences together, by label."""
    average: Scores
    """Over all classes asked for, those without truth included, as TrackEval does it."""
    average_of_truth: Scores
    """Over the classes that have truth. A class that is only found falsely does not enter."""
    detection_average: Scores
    """Every box counts alike."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TrackScores:
    sequences: Mapping[str, Scores]
    combined: Scores
    """All sequences together, whatever the classes."""
    classes: ClassScores | None
    """None if no classes were asked for."""
    remarks: tuple[str, ...]
    """What was noticed while reading: rows that were sorted or omitted, sequences without truth."""
    benchmark: str
    class_names: Mapping[int, str] = field(default_factory=dict)
    """Of labels, as far as they are known."""
    evidence: Mapping[str, tuple[Prepared, Matches]] = field(repr=False)
    """By sequence: the boxes that were scored, and which belong together at an overlap of 0.5."""

    @property
    def per_class(self) -> Mapping[int, Scores]:
        return self._of_classes().per_class

    @property
    def class_average(self) -> Scores:
        """TrackEval's: over every class, those without truth included."""
        return self._of_classes().average

    @property
    def class_average_of_truth(self) -> Scores:
        return self._of_classes().average_of_truth

    @property
    def detection_average(self) -> Scores:
        return self._of_classes().detection_average

    @property
    def class_agnostic(self) -> Scores:
        return self.combined

    @cached_property
    def frame_events(self) -> tuple[FrameEvent, ...]:
        """By sequence and frame."""
        return tuple(event for name, found in self.evidence.items() for event in events_of(name, *found))

    def to_dict(self) -> dict[str, Any]:
        """Blocks by sequence and `COMBINED`; with classes also `per_class` and the averages, each by its name."""
        result: dict[str, Any] = {name: scores.to_dict() for name, scores in self.sequences.items()}
        result["COMBINED"] = self.combined.to_dict()
        if self.classes is not None:
            result["per_class"] = {str(label): scores.to_dict() for label, scores in self.per_class.items()}
            for name in ("class_average", "class_average_of_truth", "detection_average", "class_agnostic"):
                result[name] = getattr(self, name).to_dict()
        return result

    def _of_classes(self) -> ClassScores:
        if self.classes is None:
            raise UserError("scored without classes", fix="give score_tracks classes, a list of labels or 'all'")
        return self.classes


def score_tracks(
    truth: Any,
    results: Any,
    *,
    benchmark: Benchmark = "none",
    lengths: Mapping[str, int] | int | None = None,
    classes: Iterable[int | str] | str | None = None,
    class_names: Mapping[int, str] | Sequence[str] | None = None,
    names: Iterable[str] | None = None,
    skip_bad: bool = False,
) -> TrackScores:
    """HOTA, CLEAR and Identity of `results` against `truth`, per sequence and together.

    Both are a folder or file of MOTChallenge rows, an array of such rows, a `Sequence`, or a mapping of names to these.
    `lengths` are numbers of frames, else those of `seqinfo.ini`, else the last frame. `benchmark` says which boxes
    count. `classes` are labels (column 8) or names to score one by one, or "all"; `class_names` are by label or in the
    order of labels, by default those of the truth. `names` are the sequences to score, by default all. `skip_bad` omits
    rows with faults, and `remarks` says which; else they are refused.
    """
    check_benchmark(benchmark)
    if classes is not None and benchmark in ("mot17", "mot20"):
        raise UserError(
            f"benchmark {benchmark} knows pedestrians only", fix="omit classes, or score with benchmark none"
        )
    asked = (names,) if isinstance(names, str) else names
    given = paired(truth, results, lengths, names=asked, skip_bad=skip_bad)
    known = _names(class_names, given)
    uncounted = {name: why_uncounted(true, benchmark) for name, (true, _) in given.pairs.items()}
    evidence = {}
    for name, (true, found) in given.pairs.items():
        prepared = prepare(true, found, benchmark)
        evidence[name] = prepared, match(prepared)
    sequences = {name: score_prepared(*one) for name, one in evidence.items()}
    labels = None if classes is None else _labels(classes, given, known)
    remarks = [*given.remarks, *(f"{given.places[name]}: {why}" for name, why in uncounted.items() if why)]
    if nowhere := sorted({*(labels or ())} - {*_present(given)}):
        which = ", ".join(known.get(label, str(label)) for label in nowhere)
        remarks.append(f"in neither truth nor results, and 0 in the average over all classes: class {which}")
    return TrackScores(
        sequences=sequences,
        combined=combined(list(sequences.values())),
        classes=None if labels is None else _by_class(given, labels),
        remarks=tuple(remarks),
        benchmark=benchmark,
        class_names=known,
        evidence=evidence,
    )


def _by_class(given: ScoreInputs, labels: list[int]) -> ClassScores:
    per_class = {}
    for label in labels:
        prepared = [prepare(*one, label=label) for one in given.pairs.values()]
        per_class[label] = combined([score_prepared(one, match(one)) for one in prepared])
    every = list(per_class.values())
    return ClassScores(
        per_class,
        average=class_average(every),
        average_of_truth=class_average([one for one in every if one["GT_Dets"] > 0]),
        detection_average=combined(every),
    )


def _names(given_names: Mapping[int, str] | Sequence[str] | None, given: ScoreInputs) -> dict[int, str]:
    if isinstance(given_names, Mapping):
        return dict(given_names)
    if given_names is not None:
        if isinstance(given_names, str) or not isinstance(given_names, Sequence):
            raise UserError(f"class_names is {shorten(given_names)}", fix="give a list of names, or names by label")
        return classes_named(given_names, _present(given))
    return {label: name for true, _ in given.pairs.values() for label, name in true.classes.items()}


def _present(given: ScoreInputs) -> list[int]:
    there = np.unique(np.concatenate([one.label for pair in given.pairs.values() for one in pair]))
    return [label for label in there.tolist() if label >= 0]


def _labels(classes: Iterable[int | str] | str, given: ScoreInputs, known: Mapping[int, str]) -> list[int]:
    if isinstance(classes, str):
        if classes != _ALL:
            raise UserError(f"classes is {shorten(classes)}", fix="give a list of labels, or 'all'")
        return _present(given)
    if not isinstance(classes, Iterable):
        raise UserError(f"classes is {shorten(classes)}", fix="give a list of labels, or 'all'")
    labels = [label_of(one, known) if isinstance(one, str) else one for one in dict.fromkeys(classes)]
    for label in labels:
        if isinstance(label, bool) or not isinstance(label, int | np.integer):
            raise UserError(f"class {shorten(label)}", fix="give labels as whole numbers, those of column 8")
    if not labels:
        raise UserError("classes is empty", fix="give a list of labels, or 'all'")
    return [int(label) for label in dict.fromkeys(labels)]
