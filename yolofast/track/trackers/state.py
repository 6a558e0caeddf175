"""A tracker's state as one flat mapping of arrays, numbers and text: `np.savez(file, **state)` writes it, and what
`np.load` reads of that is a state again. Nothing needs a pickle.

Names are `frame`, `settings` … and `columns.ids`, `motion.filters`, `camera.grey` for the parts.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from yolofast.errors import UserError, shorten
from yolofast.track.trackers.tracks import TrackColumns

_ELSEWHERE = ("motion_device", "motion_weights")
"""Settings that may differ: where a model lies and computes."""
_FIX = "give what state_dict() returned, or np.load of what np.savez(FILE, **state) wrote"
AnyColumns = TypeVar("AnyColumns", bound=TrackColumns)


def settings_text(settings: Any, **more: Any) -> str:
    """All that decides what a state means, to be compared when it is loaded."""
    own = {name: value for name, value in dataclasses.asdict(settings).items() if name not in _ELSEWHERE}
    return json.dumps({**more, **own}, sort_keys=True)


def flat(part: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{part}.{name}": value for name, value in values.items()}


def opened(state: Any, tracker: str, settings: str) -> dict[str, Any]:
    """The values of a state of this tracker with these settings."""
    if not isinstance(state, Mapping):
        raise UserError(f"the state is {shorten(state)}", fix=_FIX)
    try:
        given = {str(name): state[name] for name in state}  # files are read here
        of, own = (str(np.asarray(given.get(name))[()]) for name in ("tracker", "settings"))
    except (OSError, ValueError, EOFError) as error:
        raise unusable(error) from None
    if "tracker" not in given:
        raise UserError(f"the state has no 'tracker': {shorten(list(given))}", fix=_FIX)
    if of != tracker:
        raise UserError(f"the state is of {shorten(of)}, this is {tracker}", fix="build the tracker it was saved from")
    if own != settings:
        raise UserError(f"the state is of other settings: {_differences(own, settings)}", fix="build it with the same")
    return given


def _differences(saved: str, own: str) -> str:
    try:
        theirs, ours = dict(json.loads(saved)), json.loads(own)
    except (TypeError, ValueError):
        return shorten(saved)
    names = [name for name in {**ours, **theirs} if theirs.get(name) != ours.get(name)]
    return ", ".join(f"{name} {shorten(theirs.get(name))}, here {shorten(ours.get(name))}" for name in names[:5])


def unusable(error: Exception) -> UserError:
    text = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return UserError(f"the state cannot be used: {text}", fix=_FIX)


def part_of(given: Mapping[str, Any], part: str) -> dict[str, Any]:
    return {name.removeprefix(f"{part}."): value for name, value in given.items() if name.startswith(f"{part}.")}


def number_of(given: Mapping[str, Any], name: str) -> float:
    found = array_of(given, name, (), np.float64)
    if found < 0:
        raise ValueError(f"{name} is {found}")
    return float(found)


def array_of(
    given: Mapping[str, Any], name: str, shape: tuple[int | None, ...], kind: type[np.generic]
) -> NDArray[Any]:
    """A copy; None stands for any length. Raises `KeyError`, `TypeError` or `ValueError`."""
    found = np.asarray(given[name])
    fits = len(found.shape) == len(shape) and all(
        wanted in (None, own) for own, wanted in zip(found.shape, shape, strict=True)
    )
    if not fits or not np.can_cast(found.dtype, kind, "same_kind"):
        raise ValueError(f"{name} is {found.dtype} {list(found.shape)}")
    if found.dtype.kind in "fc" and not np.isfinite(found).all():
        raise ValueError(f"{name} contains NaN or infinity")
    return np.array(found, kind)


def columns_of(empty: AnyColumns, given: Mapping[str, Any]) -> AnyColumns:
    """Like those of no tracks, but longer along the axis of the tracks; lengths of 0 are free."""
    count = len(np.asarray(given["ids"]).reshape(-1))
    found = {}
    for name, column in vars(empty).items():
        shape: list[int | None] = [length or None for length in column.shape]
        shape[0 if name == "features" else -1] = count
        found[name] = array_of(given, name, tuple(shape), column.dtype.type)
    return type(empty)(**found)
