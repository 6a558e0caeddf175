"""Int8 in an ONNX graph: weights as 8-bit numbers per channel, and the inputs of some convolutions too.

The graph says so with QuantizeLinear and DequantizeLinear, which runtimes turn into int8 kernels. Weights alone cost
next to no accuracy and take a quarter of the room. Inputs make it faster, where the runtime has such kernels.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from yolofast.export.formats.contract import Array
from yolofast.extensions import needed


@dataclass(frozen=True)
class InputRange:
    """Of a layer's input, over images: the range that is kept, and the means of its channels before and after."""

    low: float
    high: float
    means: Array
    rounded_means: Array


SWITCHES = "switches"
"""The input of a graph for measuring: which convolutions see their input in int8."""
_LEVELS, _HALF_LEVELS = 255, 127


@dataclass(frozen=True)
class Convolution:
    value: str
    """That it gives, which is its name here."""
    taken: str
    """Its input."""
    depthwise: bool
    layer: int
    """Its place in the graph."""


def convolutions(model: Any) -> list[Convolution]:
    """Those whose weights and bias are constants of their own, in the order of computing."""
    shape = {one.name: tuple(one.dims) for one in model.graph.initializer}
    uses = Counter(name for node in model.graph.node for name in node.input)
    nodes = [
        node
        for node in model.graph.node
        if node.op_type == "Conv" and all(name in shape and uses[name] == 1 for name in node.input[1:])
    ]
    return [
        Convolution(node.output[0], node.input[0], shape[node.input[1]][1] == 1 < shape[node.input[1]][0], place)
        for place, node in enumerate(nodes)
    ]


def with_int8(
    model: Any, chosen: Collection[str], seen: Mapping[str, InputRange], *, folded: bool = False, switched: bool = False
) -> Any:
    """A copy whose weights are int8, and the inputs of the `chosen` convolutions, known by the values that they give.

    `folded`: weights of the others become fp32 when the file is opened. onnxruntime would turn them into fp32 at each
    image, and lose its fast layout. `switched`: for measuring, each input is int8 if its switch is on.
    """
    graph = _Graph(model)
    known = {one.value: one for one in convolutions(model)}
    graph.nodes = []
    for node in model.graph.node:
        copy = graph.copied(node)
        if node.op_type == "Conv" and (one := known.get(node.output[0])) is not None:
            inputs = seen[one.taken]
            means = inputs.rounded_means if one.value in chosen and not switched else inputs.means
            graph.weight(copy, one, inputs.means, means, folded=switched or (folded and one.value not in chosen))
            if one.value in chosen:
                rounded = graph.rounded(one.taken, inputs)
                copy.input[0] = graph.switch(one, rounded) if switched else rounded
        graph.nodes.append(copy)
    return graph.model(switches=len(known) if switched else 0)


class _Graph:
    """The copy, while it is made."""

    def __init__(self, model: Any) -> None:
        self.onnx, self._source = needed("onnx", "onnx", "the ONNX format"), model
        self._constants = {one.name: one for one in model.graph.initializer}
        self._rounded: dict[str, str] = {}
        self.nodes: list[Any] = []

    def copied(self, node: Any) -> Any:
        copy = self.onnx.NodeProto()
        copy.CopyFrom(node)
        copy.ClearField("name")
        return copy

    def constant(self, name: str, values: Any) -> str:
        self._constants[name] = self.onnx.numpy_helper.from_array(values, name)
        return name

    def op(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [output], **attributes))
        return output

    def weight(self, node: Any, one: Convolution, means: Array, rounded_means: Array, *, folded: bool) -> None:
        """Stored in 8 bits. What rounding adds to each channel on average is taken from its bias."""
        real, short = self.onnx.numpy_helper.to_array(self._constants.pop(node.input[1])), f"w{one.layer}"
        scale = (np.maximum(np.abs(real).reshape(len(real), -1).max(1), 1e-12) / _HALF_LEVELS).astype(np.float32)
        column = scale.reshape(-1, *[1] * (real.ndim - 1))
        levels = np.round(real / column).clip(-_HALF_LEVELS, _HALF_LEVELS).astype(np.int8)
        stored = self.constant(f"{short}q", levels)
        if folded:  # not DequantizeLinear, which onnxruntime never computes beforehand
            number = self.op("Cast", [stored], f"{short}f", to=self.onnx.TensorProto.FLOAT)
            node.input[1] = self.op("Mul", [number, self.constant(f"{short}s", column)], short)
        else:
            step = self.constant(f"{short}s", scale)
            node.input[1] = self.op("DequantizeLinear", [stored, step], short, axis=0)
        if len(node.input) > 2:
            added = _mean_outputs(levels * column, rounded_means) - _mean_outputs(real, means)
            bias = self.onnx.numpy_helper.to_array(self._constants.pop(node.input[2]))
            node.input[2] = self.constant(f"b{one.layer}", (bias - added).astype(np.float32))

    def rounded(self, value: str, seen: InputRange) -> str:
        """Once for all that take the value."""
        if value not in self._rounded:
            scale, zero_level = step_of(seen.low, seen.high)
            number = len(self._rounded)
            step = self.constant(f"a{number}s", np.float32(scale))
            zero = self.constant(f"a{number}z", np.uint8(zero_level))
            level = self.op("QuantizeLinear", [value, step, zero], f"a{number}q")
            self._rounded[value] = self.op("DequantizeLinear", [level, step, zero], f"a{number}")
        return self._rounded[value]

    def switch(self, one: Convolution, rounded: str) -> str:
        place = self.constant(f"switch{one.layer}", np.int64(one.layer))
        on = self.op("Gather", [SWITCHES, place], f"on{one.layer}")
        return self.op("Where", [on, rounded, one.taken], f"seen{one.layer}")

    def model(self, *, switches: int) -> Any:
        made, helper = self.onnx.ModelProto(), self.onnx.helper
        made.CopyFrom(self._source)
        del made.graph.node[:], made.graph.initializer[:]
        if not switches:  # shapes of values are half of what is left; both runtimes find them out
            kept = [one for one in made.graph.value_info if one.name in ("images", "predictions")]
            del made.graph.value_info[:]
            made.graph.value_info.extend(kept)
        else:
            made.graph.input.append(helper.make_tensor_value_info(SWITCHES, self.onnx.TensorProto.BOOL, [switches]))
        made.graph.node.extend(self.nodes)
        made.graph.initializer.extend(self._constants.values())
        return made


def step_of(low: float, high: float) -> tuple[float, int]:
    """Of levels 0 to 255 for this range: their distance, and which one is 0."""
    step = max((high - low) / _LEVELS, 1e-12)
    return step, min(max(round(-low / step), 0), _LEVELS)


def as_rounded(values: Array, low: float, high: float) -> Array:
    """What is left of the values in 8 bits."""
    step, zero = step_of(low, high)
    found: Array = ((np.round(values / step) + zero).clip(0, _LEVELS) - zero) * step
    return found


def _mean_outputs(weight: Array, means: Array) -> Array:
    """Of a convolution `[out, in / groups, …]` whose input's channels have these means, padding left aside."""
    taps = weight.reshape(*weight.shape[:2], -1).sum(2)
    groups = len(means) // weight.shape[1]
    inputs = means.reshape(groups, -1).repeat(len(weight) // groups, axis=0)
    found: Array = (taps * inputs).sum(1)
    return found
