"""A network as an ONNX graph, and parts of such a graph.

`images` and `predictions` are values of every graph, whatever is added before and behind. So a file that suppresses or
prepares its images can still be asked for what its network predicts: for evaluation, and for other thresholds.
"""

import ast
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from yolofast.errors import UserError, in_one_line
from yolofast.export.formats.contract import DecodedNetwork
from yolofast.export.formats.facts import IMAGE, IMAGES, PREDICTIONS, ExportFacts
from yolofast.export.formats.onnx_nodes import (
    CONF,
    IOU,
    MAX_DET,
    Nodes,
    add_efficient_nms,
    add_preparation,
    add_suppression,
)
from yolofast.extensions import needed

LAYER = "layer"
"""The entry of a node that names the layer it was made of."""
_SCOPES = "pkg.torch.onnx.name_scopes"


def graph_of(network: DecodedNetwork, facts: ExportFacts) -> Any:
    """The `ModelProto`, with its metadata."""
    onnx = needed("onnx", "onnx", "the ONNX format")
    model = _traced(network, facts)
    for node in model.graph.node:
        _keep_layer(node)  # what else torch notes are files and lines of this machine
    before, behind = Nodes("image"), Nodes("nms")
    if facts.nms == "onnx":
        add_suppression(behind, facts)
    elif facts.nms == "efficientnms":
        add_efficient_nms(behind, facts)
    if facts.image_order:
        add_preparation(before, facts)
    _put_around(model, before, behind, facts)
    model.producer_name, model.producer_version = "yolofast", facts.version
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, facts.metadata())
    if facts.nms != "efficientnms":  # an operator that only TensorRT knows
        onnx.checker.check_model(model)
    return model


def _traced(network: DecodedNetwork, facts: ExportFacts) -> Any:
    needed("onnxscript", "onnx", "the ONNX format")
    height, width = facts.shape
    sides: dict[int, Any] = {}
    if not facts.batch:
        sides[0] = torch.export.Dim("batch")
    if facts.any_sides:
        # Sides whose numbers of strides differ, so that torch does not take them for one.
        height, width = 2 * facts.stride, 3 * facts.stride
        sides |= {2: facts.stride * torch.export.Dim("height"), 3: facts.stride * torch.export.Dim("width")}
    images = torch.rand(facts.batch or 2, 3, height, width)
    try:
        with _quiet():
            program = torch.onnx.export(
                network, (images,), dynamo=True, opset_version=facts.opset, input_names=[IMAGES],
                output_names=[PREDICTIONS], dynamic_shapes=(sides,) if sides else None, verbose=False,
            )  # fmt: skip
    except (torch.onnx.OnnxExporterError, RuntimeError, NotImplementedError) as error:
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        what = f"the network cannot be written with ONNX operator set {facts.opset}: {in_one_line(cause)}"
        raise UserError(
            what, fix="another --opset, or without --dynamic; a layer of your own needs ONNX's operators"
        ) from error
    assert program is not None
    model = program.model_proto
    written = next(one.version for one in model.opset_import if one.domain == "")
    if written != facts.opset:
        what = f"the network cannot be written with ONNX operator set {facts.opset}, only with {written}"
        raise UserError(what, fix=f"--opset {written}")
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    """Torch says at length what it does, and that torchvision is missing."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _keep_layer(node: Any) -> None:
    scopes = next((one.value for one in node.metadata_props if one.key == _SCOPES), "[]")
    del node.metadata_props[:]
    modules = [name for name in ast.literal_eval(scopes)[:-1] if name]
    if modules:
        node.metadata_props.add(key=LAYER, value=modules[-1].removeprefix("network").removeprefix("."))


def layer_values(model: Any) -> dict[str, str]:
    """Layers, in the order of computing, and the value that each gives."""
    last: dict[str, str] = {}
    for node in model.graph.node:
        layer = next((one.value for one in node.metadata_props if one.key == LAYER), "")
        while layer:  # the last node of a layer is the last of what it is part of
            last.pop(layer, None)
            last[layer] = node.output[0]
            layer = layer.rpartition(".")[0]
    return last


def _put_around(model: Any, before: Nodes, behind: Nodes, facts: ExportFacts) -> None:
    graph, helper, kinds = model.graph, before.onnx.helper, before.onnx.TensorProto
    inner = list(graph.node)
    del graph.node[:]
    graph.node.extend([*before.nodes, *inner, *behind.nodes])
    graph.initializer.extend([*before.constants, *behind.constants])
    if facts.image_order:
        graph.value_info.append(graph.input[0])
        del graph.input[:]
        graph.input.append(helper.make_tensor_value_info(IMAGE, kinds.UINT8, ["height", "width", 3]))
    if facts.threshold_inputs:  # with constants of the same names, which are their defaults
        graph.input.append(helper.make_tensor_value_info(CONF, kinds.FLOAT, [1]))
        graph.input.append(helper.make_tensor_value_info(IOU, kinds.FLOAT, [1]))
        graph.input.append(helper.make_tensor_value_info(MAX_DET, kinds.INT64, [1]))
    if facts.nms == "none":
        return
    graph.value_info.append(graph.output[0])
    del graph.output[:]
    batch, most = facts.batch or "batch", "max_det" if facts.threshold_inputs else facts.max_det
    if facts.nms == "efficientnms":
        model.opset_import.append(helper.make_opsetid("TRT", 1))
    integers = {"num_dets": [batch, 1], "det_classes": [batch, most]}
    floats = {"det_boxes": [batch, most, 4], "det_scores": [batch, most], "detections": [batch, most, 6]}
    for name in facts.outputs:
        kind = kinds.INT32 if name in integers else kinds.FLOAT
        graph.output.append(helper.make_tensor_value_info(name, kind, {**integers, **floats}[name]))


def part_of(model: Any, inputs: Sequence[str], outputs: Sequence[str]) -> Any:
    """A copy with only what leads from these values to those."""
    onnx = needed("onnx", "onnx", "the ONNX format")
    graph = model.graph
    known = {one.name: one for one in [*graph.value_info, *graph.input, *graph.output]}
    constants = {one.name for one in graph.initializer}
    wanted, nodes = set(outputs), []
    for node in reversed(graph.node):
        if wanted.intersection(node.output) and not set(inputs).intersection(node.output):
            nodes.append(node)
            wanted.update(node.input)
    lacking = wanted - constants - set(inputs) - {name for node in nodes for name in node.output} - {""}
    if lacking or not set(inputs) <= known.keys():
        what = f"the graph has no {', '.join(sorted([*lacking, *(set(inputs) - known.keys())])[:3])}"
        raise UserError(what, fix="export it again: it is damaged")
    cut = onnx.helper.make_graph(
        nodes[::-1],
        graph.name,
        [known[name] for name in inputs],
        [known.get(name) or onnx.ValueInfoProto(name=name) for name in outputs],
        [one for one in graph.initializer if one.name in wanted],
    )
    return onnx.helper.make_model(cut, opset_imports=model.opset_import, ir_version=model.ir_version)
