"""Which layers `--freeze` means: by their numbers, as in YOLOv7, or by the names of parts.

Names are those of the listing (`yolofast info`): a part (`backbone`, `neck`, `head`), or a layer of a network whose
layers have names, with its part or without (`backbone.dark5`, `dark5`); `*` and `?` stand for anything. They are not
those of the state dict, where YOLOX's neck is called `backbone.` too and would be frozen along with it.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from yolofast.errors import UserError, nearest, shorten
from yolofast.model.contract import Layer, Network


def frozen_of(model: Network, given: Sequence[int | str]) -> frozenset[int]:
    """The places among `model.layers` of those that `given` means; a single 0 means none."""
    names = [value for value in given if isinstance(value, str)]
    numbers = [value for value in given if isinstance(value, int)]
    if numbers == [0] and not names:
        return frozenset()
    if names and numbers:
        shown = " ".join(map(str, given))
        raise UserError(f"--freeze {shown} mixes numbers and names", fix="give one or the other")
    if names:
        return frozenset().union(*(_named(model, name) for name in names))
    if not model.numbered:
        what = f"--freeze {' '.join(map(str, numbers))}: the layers of this network have no numbers"
        raise UserError(what, fix=f"name what to freeze: {', '.join(_known(model))}")
    return frozen_layers(numbers, len(model.layers))


def frozen_layers(values: Sequence[int], layers: int) -> frozenset[int]:
    """One value N freezes layers 0 to N-1; several values freeze exactly those layers."""
    frozen = frozenset(range(values[0])) if len(values) == 1 else frozenset(values)
    if any(index < 0 or index >= layers for index in frozen) or any(v < 0 for v in values):
        given = " ".join(map(str, values))
        fix = f"the model has layers 0 to {layers - 1}: give a count up to {layers}, or layer numbers"
        raise UserError(f"--freeze {given} names a layer that does not exist", fix=fix)
    return frozen


def _named(model: Network, pattern: str) -> frozenset[int]:
    found = frozenset(
        index
        for index, layer in enumerate(model.layers)
        if any(fnmatchcase(name, pattern) for name in _names(layer, model.numbered))
    )
    if not found:
        known = _known(model)
        short = [name.rpartition(".")[2] for name in known]
        what = f"--freeze {shorten(pattern)} names nothing of this network{nearest(pattern, known + short)}"
        raise UserError(what, fix=f"use {', '.join(known)}; * stands for anything")
    return found


def _names(layer: Layer, numbered: bool) -> tuple[str, ...]:
    return (layer.part,) if numbered else (layer.part, layer.scope, layer.name)


def _known(model: Network) -> list[str]:
    parts = list(dict.fromkeys(layer.part for layer in model.layers))
    return parts if model.numbered else [*parts, *(layer.scope for layer in model.layers)]
