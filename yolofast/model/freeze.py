"""Which layers `--freeze` and freeze plans mean: by their numbers, as in YOLOv7, or by the names of parts.

Names are those of the listing (`yolofast info`): a part (`backbone`, `neck`, `head`), or a layer of a network whose
layers have names, with its part or without (`backbone.dark5`, `dark5`); `*` and `?` stand for anything. Layers that
have numbers are named by them (`23`, `23-37`). The names are not those of the state dict, where YOLOX's neck is
called `backbone.` too and would be frozen along with it.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from yolofast.errors import UserError, nearest, shorten
from yolofast.model.contract import Layer, Network

_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")


def frozen_of(model: Network, given: Sequence[int | str], setting: str = "--freeze") -> frozenset[int]:
    """The places among `model.layers` of those that `given` means; a single 0 means none. `setting` is for messages."""
    names = [value for value in given if isinstance(value, str)]
    numbers = [value for value in given if isinstance(value, int)]
    if numbers == [0] and not names:
        return frozenset()
    if names and numbers:
        shown = " ".join(map(str, given))
        raise UserError(f"{setting} {shown} mixes numbers and names", fix="give one or the other")
    if names:
        return frozenset().union(*(layers_named(model, name, setting) for name in names))
    if not model.numbered:
        what = f"{setting} {' '.join(map(str, numbers))}: the layers of this network have no numbers"
        raise UserError(what, fix=f"name what to freeze: {', '.join(_known(model))}")
    return frozen_layers(numbers, len(model.layers), setting)


def frozen_layers(values: Sequence[int], layers: int, setting: str = "--freeze") -> frozenset[int]:
    """One value N freezes layers 0 to N-1; several values freeze exactly those layers."""
    frozen = frozenset(range(values[0])) if len(values) == 1 else frozenset(values)
    if any(index < 0 or index >= layers for index in frozen) or any(v < 0 for v in values):
        given = " ".join(map(str, values))
        fix = f"the model has layers 0 to {layers - 1}: give a count up to {layers}, or layer numbers"
        raise UserError(f"{setting} {given} names a layer that does not exist", fix=fix)
    return frozen


def layers_named(model: Network, name: str, setting: str) -> frozenset[int]:
    """The places among `model.layers` of those a name, a glob or a range of numbers means; at least one."""
    if (ends := _RANGE.fullmatch(name)) and model.numbered:
        found = frozenset(range(int(ends[1]), min(int(ends[2] or ends[1]), len(model.layers)) + 1))
        if not found or max(found) >= len(model.layers):
            fix = f"the model has layers 0 to {len(model.layers) - 1}"
            raise UserError(f"{setting} {name} names a layer that does not exist", fix=fix)
        return found
    found = frozenset(
        index
        for index, layer in enumerate(model.layers)
        if any(fnmatchcase(known, name) for known in _names(layer, model.numbered))
    )
    if not found:
        known = _known(model)
        short = [scope.rpartition(".")[2] for scope in known]
        what = f"{setting} {shorten(name)} names nothing of this network{nearest(name, known + short)}"
        named = "; modules have names in YOLOX (--cfg yolox-s …)" if model.numbered else ""
        raise UserError(what, fix=f"use {', '.join(known)}; * stands for anything{named}")
    return found


def _names(layer: Layer, numbered: bool) -> tuple[str, ...]:
    # `backbone.*` is the whole part, also where its layers have no names.
    return (layer.part, f"{layer.part}.") if numbered else (layer.part, layer.scope, layer.name)


def _known(model: Network) -> list[str]:
    parts = list(dict.fromkeys(layer.part for layer in model.layers))
    if model.numbered:
        return [*parts, f"ranges of layers such as 0-{len(model.layers) - 1}"]
    return [*parts, *(layer.scope for layer in model.layers)]
