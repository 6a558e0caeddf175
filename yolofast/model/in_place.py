"""How a graph of layers runs while it learns with the project's own kernels (`yolofast/fused`).

The layers are those of the schedule, but passes over memory are saved. What a Concat joins is written where the joint
map has it. Layers that read the same map do so by a `fork`. Convolutions of the same map that differ in their weights
alone run as one, when the first of them is due.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor, nn

from yolofast.fused.concat import ConcatBuffer, ConcatSlot
from yolofast.fused.fork import fork
from yolofast.model.blocks import MP, SP, SPPCSPC, Concat, Conv, Upsample, side_by_side
from yolofast.model.graph import IMAGE

_TAKE_SLOTS = (Conv, SPPCSPC, MP, SP, Upsample)
_READ_IN_PLACE = (Concat, MP, SP, Upsample)
"""They need no map of their own: a part of a wider one is as good."""

Schedule = Sequence[tuple[int, tuple[int, ...], bool, tuple[int, ...]]]
"""As `network.py` makes it: a layer, its sources, whether it joins them, and what nobody reads after it."""


class _SlotPlan(NamedTuple):
    concat: int
    part: int
    only: bool


class _Step(NamedTuple):
    layers: tuple[int, ...]
    """Several, if they run as one."""
    sources: tuple[int, ...]
    joins: bool
    slots: tuple[_SlotPlan | None, ...]


class InPlacePlan:
    def __init__(
        self, schedule: Schedule, outputs: Sequence[int], modules: Sequence[nn.Module], channels: Sequence[int]
    ) -> None:
        """`channels` are those of each layer's map."""
        self._outputs = tuple(outputs)
        self._joint = {layer: [channels[s] for s in sources] for layer, sources, *_ in schedule
                       if isinstance(modules[layer], Concat)}  # fmt: skip
        slots = _slots(schedule, outputs, modules)
        self._steps = [
            _Step(layers, sources, joins, tuple(slots.get(layer) for layer in layers))
            for layers, sources, joins in _grouped(schedule, modules)
        ]
        self._readers = Counter(outputs)
        for step in self._steps:
            self._readers.update(step.sources)

    def run(self, modules: nn.Sequential, images: Tensor) -> list[Tensor]:
        """The maps that go into the head."""
        maps: dict[int, list[Tensor]] = {IMAGE: fork(images, self._readers[IMAGE])}
        buffers = {layer: ConcatBuffer(channels) for layer, channels in self._joint.items()}
        for step in self._steps:
            inputs = [maps[source].pop() for source in step.sources]
            slots = [None if slot is None else buffers[slot.concat].slot(slot.part, slot.only) for slot in step.slots]
            made = _made([modules[layer] for layer in step.layers], inputs, step, slots, buffers)
            for layer, own in zip(step.layers, made, strict=True):
                maps[layer] = fork(own, self._readers[layer])
            del inputs, made
        return [maps[source].pop() for source in self._outputs]


def _made(
    modules: list[nn.Module], inputs: list[Tensor], step: _Step, slots: list[ConcatSlot | None],
    buffers: Mapping[int, ConcatBuffer],
) -> list[Tensor]:  # fmt: skip
    if len(modules) > 1:
        return side_by_side(modules, inputs[0], slots)
    (module,), (slot,) = modules, slots
    if isinstance(module, Concat):
        return [module(inputs, buffers[step.layers[0]])]
    if slot is not None:
        return [module(inputs[0], slot)]
    return [module(inputs if step.joins else inputs[0])]


def _slots(schedule: Schedule, outputs: Sequence[int], modules: Sequence[nn.Module]) -> dict[int, _SlotPlan]:
    """Where a Concat has a layer's map, the first of several; others copy it."""
    copied = set(outputs)  # read by somebody who needs a map of its own
    for layer, sources, *_ in schedule:
        if not isinstance(modules[layer], _READ_IN_PLACE):
            copied.update(sources)
    slots: dict[int, _SlotPlan] = {}
    for layer, sources, *_ in schedule:
        if isinstance(modules[layer], Concat):
            for part, source in enumerate(sources):
                if source != IMAGE and isinstance(modules[source], _TAKE_SLOTS):
                    slots.setdefault(source, _SlotPlan(layer, part, only=source not in copied))
    return slots


def _grouped(schedule: Schedule, modules: Sequence[nn.Module]) -> list[tuple[tuple[int, ...], tuple[int, ...], bool]]:
    """Layers that run as one, their sources, and whether they join those."""
    groups: dict[object, list[int]] = {}
    for layer, sources, *_ in schedule:
        module = modules[layer]
        alike = (sources, module.conv.kernel_size, module.conv.stride) if isinstance(module, Conv) else layer
        groups.setdefault(alike, []).append(layer)
    about = {layer: (sources, joins) for layer, sources, joins, _ in schedule}
    return [(tuple(layers), *about[layers[0]]) for layers in groups.values()]
