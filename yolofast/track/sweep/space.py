"""What is searched: which values each setting may have, as text or YAML say it, and the settings to try.

A setting is given to those trackers that have it. So one search compares several trackers, each with its own settings.
No combination is tried twice because of a setting that a tracker does not have.
"""

import dataclasses
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from yolofast.config.track import USUAL_TRACKER
from yolofast.errors import UserError, nearest, shorten
from yolofast.files.yaml_file import read_yaml
from yolofast.track.trackers.settings import value_of
from yolofast.track.trackers.table import TRACKERS, build_tracker, kind_of

Value = bool | int | float | str | None
Trial = dict[str, Value]
"""One choice: `tracker`, and the settings that differ from its defaults or are searched."""

TRACKER, CONF, NMS, CLASSES = "tracker", "conf", "nms", "classes"
OF_DETECTIONS = (CONF, NMS)
CAMERA, NO_CAMERA = "cmc_method", "none"
_MOTION = "motion"
"""And what the names of its weights and their like begin with."""
_USUAL_CLASSES = "vote"
_MOST = 1_000_000
_DIGITS = 4
"""After the point, of numbers that are drawn."""
_USUAL: dict[str, dict[str, tuple[Value, ...]]] = {
    "bytetrack": {"track_thresh": (0.3, 0.4, 0.5, 0.6, 0.7), "match_thresh": (0.7, 0.8, 0.9),
                  "track_buffer": (15, 30, 60)},
    "botsort": {"track_high_thresh": (0.3, 0.4, 0.5, 0.6, 0.7), "new_track_thresh": (0.5, 0.7),
                "match_thresh": (0.7, 0.8, 0.9), "track_buffer": (15, 30, 60)},
    "ocsort": {"det_thresh": (0.3, 0.4, 0.5, 0.6, 0.7), "max_age": (15, 30, 60), "iou_threshold": (0.2, 0.3),
               "use_byte": (False, True)},
    "boosttrack": {"det_thresh": (0.4, 0.5, 0.6, 0.7), "max_age": (15, 30, 60), "iou_threshold": (0.2, 0.3)},
}  # fmt: skip
"""What is searched where nothing is said."""


@dataclass(frozen=True)
class SettingRange:
    """Any number from `low` to `high`, both included: for random searches."""

    low: float
    high: float


@dataclass(frozen=True)
class Space:
    trackers: tuple[str, ...]
    values: Mapping[str, tuple[Value, ...] | SettingRange]
    """Of each setting but the tracker."""
    usual: bool = False
    """Nothing was said: each tracker has the values of `_USUAL`."""

    def of(self, tracker: str) -> dict[str, tuple[Value, ...] | SettingRange]:
        """The settings of one tracker."""
        known = settings_of(tracker)
        own: dict[str, tuple[Value, ...] | SettingRange] = {
            name: given for name, given in self.values.items() if name in known or name in (*OF_DETECTIONS, CLASSES)
        }
        if self.usual:
            own = {**_USUAL.get(tracker.rstrip("+"), {}), **own}
        return own


def searched_names(trials: Iterable[Trial]) -> list[str]:
    """Settings that have more than one value, in their order."""
    values: dict[str, set[str]] = {}
    for trial in trials:
        for name, value in trial.items():
            values.setdefault(name, set()).add(repr(value))
    return [name for name, several in values.items() if len(several) > 1]


def settings_of(tracker: str) -> dict[str, Any]:
    """Names and defaults."""
    return {field.name: field.default for field in dataclasses.fields(kind_of(tracker).settings)}


def parse_space(texts: Iterable[str], file: str | Path | None = None, trackers: Iterable[str] = ()) -> Space:
    """From `name=value,value` or `name=from:to:step`, after those of a YAML file; of two the later counts."""
    given: dict[str, tuple[Value, ...] | SettingRange] = {} if file is None else _of_file(Path(file))
    names = tuple(trackers)
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not values.strip():
            raise UserError(f"--set {text}", fix="give a name and values: --set match_thresh=0.7,0.8,0.9")
        if name.strip() == TRACKER and names:
            what = f"--tracker {' '.join(names)} and --set {text} are both given"
            both = dict.fromkeys((*names, *(one.strip() for one in values.split(","))))
            raise UserError(what, fix=f"give one of them: --tracker {' '.join(both)}")
        given[name.strip()] = _parse(name.strip(), values)
    return make_space(given, names)


def make_space(given: Mapping[str, tuple[Value, ...] | SettingRange], trackers: Iterable[str] = ()) -> Space:
    """Every name and every value is checked: a search of an hour must not end at a slip."""
    names = tuple(dict.fromkeys(trackers)) or _names_of(given.get(TRACKER, (USUAL_TRACKER,)))
    values = {name: one for name, one in given.items() if name != TRACKER}
    known = {name for one in names for name in settings_of(one)} | {*OF_DETECTIONS, CLASSES}
    for name in values:
        if name not in known:
            others = [one for one in TRACKERS if name in settings_of(one)]
            if others:
                what, fix = f"{', '.join(names)} has no setting {name}", f"add --tracker {others[0]}, which has it"
            else:
                what = f"there is no setting {name!r}{nearest(name, {TRACKER, *known})}"
                own = sorted(known - {*OF_DETECTIONS, CLASSES})
                fix = f"use one of {', '.join((TRACKER, *OF_DETECTIONS, CLASSES, *own))}"
            raise UserError(what, fix=fix)
    space = Space(names, values, usual=not values)
    for tracker in names:
        searched = space.of(tracker)
        motions = {name: tuple(_ends(one)) for name, one in searched.items() if name.startswith(_MOTION)}
        for chosen in itertools.product(*motions.values()):  # a learned motion is nothing without its weights
            build_tracker(tracker, **dict(zip(motions, chosen, strict=True)))  # type: ignore[arg-type]
        for name, one in searched.items():
            if name not in motions:
                _check(tracker, name, one)
    return space


def grid(space: Space) -> list[Trial]:
    """Every combination, each once."""
    found: dict[str, Trial] = {}
    for tracker in space.trackers:
        own = space.of(tracker)
        for name, one in own.items():
            if isinstance(one, SettingRange):
                fix = f"give a step, {name}={one.low:g}:{one.high:g}:{(one.high - one.low) / 5:g}, or --random N"
                raise UserError(f"{name} is a range, so there is no end of combinations", fix=fix)
        count = math.prod(len(one) for one in own.values() if not isinstance(one, SettingRange))
        if count + len(found) > _MOST:
            raise UserError(f"{count:,} combinations for {tracker}", fix="give fewer values, or --random N")
        for values in itertools.product(*(one for one in own.values() if not isinstance(one, SettingRange))):
            trial: Trial = {TRACKER: tracker, **dict(zip(own, values, strict=True))}
            found.setdefault(key_of(trial), trial)
    return list(found.values())


def drawn(space: Space, count: int, seed: int) -> list[Trial]:
    """`count` of them, all different; fewer if there are no more. The same seed draws the same."""
    chance = np.random.default_rng(seed)
    found: dict[str, Trial] = {}
    for _ in range(20 * count):
        if len(found) == count:
            break
        tracker = space.trackers[int(chance.integers(len(space.trackers)))]
        trial: Trial = {TRACKER: tracker}
        for name, one in space.of(tracker).items():
            trial[name] = _draw(chance, tracker, name, one)
        found.setdefault(key_of(trial), trial)
    return list(found.values())


def key_of(trial: Trial) -> str:
    """Equal for equal settings, in whatever order."""
    return json.dumps(trial, sort_keys=True)


def words_of(trial: Trial) -> str:
    """`bytetrack match_thresh=0.8 …`"""
    shown = [name for name in trial if name != TRACKER]
    return " ".join([str(trial[TRACKER]), *(f"{name}={shown_value(trial[name])}" for name in shown)])


def shown_value(value: Value) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return f"{value:g}" if isinstance(value, int | float) else value


def simplest(trial: Trial) -> Trial:
    """The same search result with the fewest settings: without defaults, and those that cannot have an effect.

    ByteTrack and BoT-SORT leave out what is not above `track_low_thresh`, so a lower `conf` changes nothing. With
    `conf` at `track_high_thresh` or above nothing is left between the two, so the lower one changes nothing.
    """
    tracker = str(trial[TRACKER])
    usual = {**settings_of(tracker), CONF: None, NMS: None, CLASSES: _USUAL_CLASSES}
    trial = {name: value for name, value in trial.items() if name == TRACKER or value != usual[name]}
    if _MOTION not in trial:  # its weights, then, have no effect
        trial = {name: value for name, value in trial.items() if not name.startswith(_MOTION)}
    band, conf = low_scores(trial), trial.get(CONF)
    if band is None or not isinstance(conf, int | float):
        return trial
    low, high = band
    without = CONF if conf <= low < high else "track_low_thresh" if low < high <= conf else None
    return {name: value for name, value in trial.items() if name != without}


def low_scores(trial: Trial) -> tuple[float, float] | None:
    """Between these two, detections continue tracks only, of ByteTrack and BoT-SORT; below they are left out."""
    every = {**settings_of(str(trial[TRACKER])), **trial}
    high = {"bytetrack": "track_thresh", "botsort": "track_high_thresh"}.get(str(trial[TRACKER]))
    return None if high is None else (float(every["track_low_thresh"]), float(every[high]))


def are_usual(trials: Sequence[Trial]) -> list[bool]:
    """Which are a tracker as it comes; where none of a tracker's looks at the camera, as it comes without."""
    looks = {trial[TRACKER] for trial in trials if trial.get(CAMERA) != NO_CAMERA}
    usual = [{TRACKER: one[TRACKER]} | ({} if one[TRACKER] in looks else {CAMERA: NO_CAMERA}) for one in trials]
    return [simplest(trial) == simplest(one) for trial, one in zip(trials, usual, strict=True)]


def with_usual(trials: Iterable[Trial], trackers: Iterable[str]) -> list[Trial]:
    """The trackers as they come are among what is tried, so that the best is never worse than they are."""
    found = list(trials)
    usual: list[Trial] = [{TRACKER: name} for name in trackers]
    return [*found, *(one for one in usual if one not in map(simplest, found))]


def _names_of(given: tuple[Value, ...] | SettingRange) -> tuple[str, ...]:
    names = given if isinstance(given, tuple) else (f"{given.low:g}:{given.high:g}",)
    for name in names:
        kind_of(name)
    return tuple(dict.fromkeys(map(str, names)))


def _of_file(path: Path) -> dict[str, tuple[Value, ...] | SettingRange]:
    """A mapping of names to a value, a list of values, or text `from:to:step`."""
    read = read_yaml(path)
    found: dict[str, tuple[Value, ...] | SettingRange] = {}
    for name, given in read.values.items():
        several = given if isinstance(given, list) else [given]
        if not several or not all(one is None or isinstance(one, bool | int | float | str) for one in several):
            what, fix = f"{name} is {shorten(given)}", "give a value or a list of values"
            raise UserError(what, where=path, line=read.line(name), fix=fix)
        is_text = isinstance(given, str)
        found[str(name)] = _parse(str(name), given) if is_text else tuple(several)
    return found


def _parse(name: str, text: str) -> tuple[Value, ...] | SettingRange:
    if ":" not in text:
        return tuple(dict.fromkeys(value_of(name, part.strip()) for part in text.split(",")))
    try:
        low, high, *step = (float(part) for part in text.split(":"))
        if len(step) > 1 or not low <= high or (step and not step[0] > 0):
            raise ValueError
    except ValueError:
        raise UserError(f"{name}={text}", fix=f"give from:to:step with numbers: {name}=0.1:0.6:0.1") from None
    if not step:
        return SettingRange(low, high)
    count = math.floor((high - low) / step[0] + 1e-9) + 1
    if count > _MOST:
        raise UserError(f"{name}={text} has {count:,} values", fix="give a larger step")
    numbers = [round(low + place * step[0], 10) for place in range(count)]
    whole = all(number.is_integer() for number in (low, step[0]))
    return tuple(int(number) if whole else number for number in numbers)


def _draw(chance: np.random.Generator, tracker: str, name: str, given: tuple[Value, ...] | SettingRange) -> Value:
    if isinstance(given, tuple):
        return given[int(chance.integers(len(given)))]
    if _is_whole(tracker, name):
        return int(chance.integers(round(given.low), round(given.high) + 1))
    return round(float(chance.uniform(given.low, given.high)), _DIGITS)


def _is_whole(tracker: str, name: str) -> bool:
    default = settings_of(tracker).get(name)
    return isinstance(default, int) and not isinstance(default, bool)


def _check(tracker: str, name: str, given: tuple[Value, ...] | SettingRange) -> None:
    for value in _ends(given):
        if name in OF_DETECTIONS:
            if isinstance(value, bool | str) or not (value is None or 0 <= value <= 1):
                raise UserError(f"{name} is {shorten(value)}", fix="give a number from 0 to 1")
        else:
            build_tracker(tracker, **{name: value})  # type: ignore[arg-type]


def _ends(given: tuple[Value, ...] | SettingRange) -> Iterator[Value]:
    yield from (given.low, given.high) if isinstance(given, SettingRange) else given
