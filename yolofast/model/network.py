"""`build_model`: a network by its name, and the networks built from graphs of layers that end in one head."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from yolofast.errors import UserError, nearest, shorten
from yolofast.model.blocks import cascade_pools
from yolofast.model.contract import Layer, Network
from yolofast.model.graph import (
    GRAPH,
    IMAGE,
    Graph,
    LayerSpec,
    family_named,
    is_whole,
    model_families,
    model_file,
    read_graph,
)
from yolofast.model.head_config import HeadConfig, parse_head_config, read_head_config
from yolofast.model.heads import HEADS, AnchorHead
from yolofast.model.in_place import InPlacePlan
from yolofast.model.module_table import BLOCKS, CHANNEL_SCALED, LayerProblem, MapShape, scaled_channels
from yolofast.precision import NEW_KERNELS, kernels_for
from yolofast.resources import MULTI_HEADS
from yolofast.structures import HeadLayout
from yolofast.words import own_command

__all__ = ["GraphNetwork", "Network", "build_model", "has_several_heads"]

_BINS = 21
_STANDARD_GROUPING_CLASSES = 80
# Ten times the largest published network; beyond it a model file holds a typing error.
_MAX_PARAMETERS = 2_000_000_000


Step = tuple[int, tuple[int, ...], bool, tuple[int, ...]]
"""A layer, its sources, whether they are joined, and the maps done with after it."""
Plan = tuple[list[Step], Sequence[int]]


class GraphNetwork(Network):
    """`model(images)` gives the list of raw maps, in training mode followed by the auxiliary maps where there are any.

    Parameters are named `model.<layer>.…`, as in published checkpoints.
    """

    family = GRAPH

    def __init__(
        self, graph: Graph, modules: Sequence[nn.Module], head: AnchorHead, groups: HeadConfig | None,
        channels: Sequence[int],
    ) -> None:  # fmt: skip
        """`channels` are those of each layer's map."""
        super().__init__()
        self._groups = groups
        self.model = nn.Sequential(*modules, head)
        self.graph = graph
        self.nc = graph.nc
        self.names = graph.names or tuple(str(i) for i in range(graph.nc))
        sources = graph.layers[-1].sources
        lead = sources[: head.layout.levels]
        layers = cascade_pools(graph.layers[:-1], modules)
        self._train_plan = (_schedule(layers, sources), sources)
        self._channels = tuple(channels)
        # Layers that only feed auxiliary maps are not run at inference.
        self._eval_plan = (_schedule(layers, lead), lead)

    @cached_property
    def _in_place(self) -> InPlacePlan:
        """How it runs by the project's own kernels."""
        return InPlacePlan(*self._train_plan, list(self.model), self._channels)

    @property
    def layers(self) -> tuple[Layer, ...]:
        specs = self.graph.layers
        head_start = len(specs) - 1
        while head_start - 1 in specs[-1].sources:
            head_start -= 1

        def part(index: int) -> str:
            return "backbone" if index < self.graph.backbone_layers else "neck" if index < head_start else "head"

        return tuple(Layer(part(spec.index), spec.module, self.model[spec.index]) for spec in specs)

    @property
    def head(self) -> AnchorHead:
        head = self.model[-1]
        assert isinstance(head, AnchorHead)
        return head

    @property
    def layout(self) -> HeadLayout:
        return self.head.layout

    @property
    def anchors_px(self) -> Tensor:
        return self.head.anchors_px

    @property
    def class_columns(self) -> Tensor | None:
        return self.head.class_columns

    @property
    def inference_plan(self) -> Plan:
        """What `forward` does at inference: the layers in order, and those whose maps the head gets."""
        return self._eval_plan

    @property
    def inference_layers(self) -> list[int]:
        """The layers that run at inference, head excluded: all but those that only feed auxiliary maps."""
        return [step[0] for step in self._eval_plan[0]]

    @property
    def graph_yaml(self) -> dict[str, Any]:
        """The model file's plain values: what a checkpoint keeps to build this network again."""
        return dict(self.graph.source)

    @property
    def head_config(self) -> dict[str, Any] | None:
        return None if self._groups is None else self._groups.to_dict()

    def forward(self, images: Tensor) -> list[Tensor]:
        if self.training and torch.is_grad_enabled() and NEW_KERNELS and kernels_for(images):
            return self.head(self._in_place.run(self.model, images))  # type: ignore[no-any-return]
        maps: dict[int, Tensor] = {IMAGE: images}
        steps, outputs = self._train_plan if self.training else self._eval_plan
        for layer, sources, joins, finished in steps:
            inputs = [maps[source] for source in sources]
            maps[layer] = self.model[layer](inputs if joins else inputs[0])
            for index in finished:  # let go of maps nobody needs again: at inference they would pile up
                del maps[index]
        return self.head([maps[source] for source in outputs])  # type: ignore[no-any-return]


def build_model(
    cfg: str | Path | Mapping[str, Any],
    nc: int | None = None,
    head_config: str | Path | Mapping[str, Any] | HeadConfig | None = None,
) -> Network:
    """Build a YOLOv7 or YOLOX network, freshly initialised, with the published state-dict keys.

    `cfg` is a model file, a packaged path such as `cfg/training/yolov7-tiny.yaml`, a short name such as `yolov7-tiny`
    or `yolox-s`, or the plain values of one. `nc` replaces its number of classes. `head_config` says which head owns
    which classes for graphs that end in MultiHeadDetect; without it, 80 classes use the packaged `standard` grouping.
    """
    if nc is not None and (not is_whole(nc) or nc < 1):
        raise UserError(f"nc is {shorten(nc)}", fix="give a whole number of classes, at least 1")
    if (family := family_named(cfg)) != GRAPH:
        if head_config is not None:
            fix = "use a graph that ends in MultiHeadDetect, such as yolov7-tiny-1b4h"
            raise UserError(f"a head config was given, but {model_families()[family].title} has one head", fix=fix)
        return model_families()[family].build(model_file(cfg), nc)
    graph = read_graph(cfg, nc)
    groups = _head_groups(graph, head_config)
    # Once without memory: every mistake, and a size nobody can hold, is found before anything is allocated.
    with torch.device("meta"):
        tried = _assemble(graph, groups)
    return tried if torch.get_default_device().type == "meta" else _assemble(graph, groups)


def has_several_heads(cfg: str | Path | Mapping[str, Any]) -> bool:
    """Whether a graph ends in a head that needs a head config."""
    return family_named(cfg) == GRAPH and read_graph(cfg).layers[-1].module in MULTI_HEADS


def _assemble(graph: Graph, groups: HeadConfig | None) -> GraphNetwork:
    shapes = {IMAGE: MapShape(3, Fraction(1))}
    modules: list[nn.Module] = []
    total = 0
    for layer in graph.layers[:-1]:
        inputs = [shapes[source] for source in layer.sources]
        try:
            module, shapes[layer.index] = _build_layer(graph, layer, inputs)
        except LayerProblem as problem:
            graph.fail(layer, problem.what, problem.fix)
        total += sum(p.numel() for p in module.parameters())
        if total > _MAX_PARAMETERS:
            graph.fail(layer, f"the network would hold more than {_MAX_PARAMETERS:,} parameters", "check its arguments")
        modules.append(module)
    layer = graph.layers[-1]
    try:
        head = _build_head(graph, layer, [shapes[source] for source in layer.sources], groups)
    except LayerProblem as problem:
        graph.fail(layer, problem.what, problem.fix)
    return GraphNetwork(graph, modules, head, groups, [shapes[layer.index].channels for layer in graph.layers[:-1]])


def _build_layer(graph: Graph, layer: LayerSpec, inputs: list[MapShape]) -> tuple[nn.Module, MapShape]:
    if layer.module in HEADS:
        raise LayerProblem("a detection head before the last layer", "move it to the end; there is one head")
    block = BLOCKS.get(layer.module)
    if block is None:
        known = sorted(BLOCKS) + sorted(HEADS)
        raise LayerProblem(f"unknown module{nearest(layer.module, known)}", f"use one of {', '.join(known)}")
    args = layer.args
    if layer.module in CHANNEL_SCALED and args and is_whole(args[0]):
        head_channels = graph.anchors_per_cell * (graph.nc + 5)
        args = (scaled_channels(args[0], graph.width_multiple, head_channels), *args[1:])
    if block.joins:
        if layer.repeats != 1:
            raise LayerProblem(f"repeats is {layer.repeats}", "a layer that joins maps cannot be repeated")
        return block.build(inputs, **block.bind(layer.module, args))
    if len(inputs) != 1:
        raise LayerProblem(f"takes one input, got {len(inputs)}", "join them with a Concat or Shortcut layer first")
    modules, shape = [], inputs[0]
    for _ in range(layer.repeats):
        # Bound anew each time: copies must not share an activation module.
        module, shape = block.build(shape, **block.bind(layer.module, args))
        modules.append(module)
    return (modules[0] if len(modules) == 1 else nn.Sequential(*modules)), shape


def _build_head(graph: Graph, layer: LayerSpec, inputs: list[MapShape], groups: HeadConfig | None) -> AnchorHead:
    if layer.module not in HEADS:
        raise LayerProblem("the last layer is not a detection head", f"end with one of {', '.join(sorted(HEADS))}")
    aux = layer.module == "IAuxDetect"
    if layer.repeats != 1:
        raise LayerProblem(f"repeats is {layer.repeats}", "a head cannot be repeated")
    if aux and len(inputs) % 2:
        raise LayerProblem(f"has {len(inputs)} inputs", "give the lead layers, then as many aux layers")
    lead = inputs[: len(inputs) // 2] if aux else inputs
    anchors, bins = _head_args(graph, layer, levels=len(lead))
    strides = _strides(lead, inputs[len(lead) :])
    if isinstance(anchors, int):  # squares of 2 to 8 cells, until they are fitted to data
        rows = [[stride * 2.0 * 4 ** (i / anchors) for i in range(anchors) for _ in range(2)] for stride in strides]
    else:
        rows = _in_order_of_stride(anchors, strides)
    layout = HeadLayout(
        kind="bin" if layer.module == "IBin" else "anchor",
        nc=graph.nc,
        strides=strides,
        anchors_per_cell=len(rows[0]) // 2,
        bins=bins,
        head_classes=tuple(head.classes for head in groups.heads) if groups else (),
        head_weights=tuple(head.weight for head in groups.heads) if groups else (),
        full_head=groups.full_head if groups else False,
        auxiliary=aux,
    )
    return HEADS[layer.module](layout, rows, [shape.channels for shape in inputs])


def _head_args(graph: Graph, layer: LayerSpec, levels: int) -> tuple[tuple[tuple[float, ...], ...] | int, int]:
    """The anchors and the number of bins, from `[nc, anchors]` or, for IBin, `[nc, anchors, bins]`."""
    with_bins = layer.module == "IBin"
    if not 2 <= len(layer.args) <= (3 if with_bins else 2):
        form = "[nc, anchors, bins]" if with_bins else "[nc, anchors]"
        raise LayerProblem(f"takes {form}, got {shorten(list(layer.args))}", f"write {form}")
    classes, anchors = layer.args[:2]
    if classes != "nc" and not (is_whole(classes) and classes == graph.nc):
        raise LayerProblem(f"its first argument is {shorten(classes)}, but nc is {graph.nc}", "write nc")
    if anchors != "anchors":
        raise LayerProblem(f"its second argument is {shorten(anchors)}", "write anchors, and give them at the top")
    bins = layer.args[2] if len(layer.args) == 3 else _BINS
    if not is_whole(bins) or not 2 <= bins <= 1000:
        raise LayerProblem(f"bins is {shorten(bins)}", "give a whole number from 2 to 1000")
    if not isinstance(graph.anchors, int) and len(graph.anchors) != levels:
        what = f"{levels} levels, but anchors for {len(graph.anchors)}"
        raise LayerProblem(what, "give one list of anchors per level")
    return graph.anchors, bins if with_bins else 0


def _strides(lead: list[MapShape], aux: list[MapShape]) -> tuple[int, ...]:
    if aux and [x.stride for x in aux] != [x.stride for x in lead]:
        raise LayerProblem(
            "aux inputs have other strides than lead inputs", "give them level by level in the same order"
        )
    if any(x.stride.denominator != 1 for x in lead):
        raise LayerProblem("a level is finer than the image", "remove an nn.Upsample")
    return tuple(int(x.stride) for x in lead)


def _in_order_of_stride(anchors: tuple[tuple[float, ...], ...], strides: tuple[int, ...]) -> list[list[float]]:
    """Small anchors on fine levels: the rows are turned round if their sizes run against the strides."""
    rows = [list(row) for row in anchors]
    area = [sum(w * h for w, h in zip(row[::2], row[1::2], strict=True)) for row in rows]
    return rows[::-1] if (area[-1] - area[0]) * (strides[-1] - strides[0]) < 0 else rows


def _head_groups(graph: Graph, given: str | Path | Mapping[str, Any] | HeadConfig | None) -> HeadConfig | None:
    last = graph.layers[-1].module
    if last not in MULTI_HEADS:
        if given is not None:
            what = f"a head config was given, but this graph ends in {last}"
            fix = "use a graph that ends in MultiHeadDetect, such as yolov7-tiny-1b4h"
            raise UserError(what, where=graph.where, fix=fix)
        return None
    if given is None and graph.nc != _STANDARD_GROUPING_CLASSES:
        what = f"{last} needs to know which head owns which of the {graph.nc} classes"
        raise UserError(
            what, where=graph.where, fix=f"give a head config (--head-config), or make one: {own_command()} heads"
        )
    if isinstance(given, HeadConfig):
        config = given
    elif isinstance(given, Mapping):
        config = parse_head_config(given)
    else:
        config = read_head_config("standard" if given is None else given)
    if config.nc != graph.nc:
        what = f"the head config is for {config.nc} classes, the model for {graph.nc}"
        fix = f"build the model with {config.nc} classes (--nc {config.nc}), or group its {graph.nc} classes"
        raise UserError(what, where=None if isinstance(given, Mapping | HeadConfig) else given, fix=fix)
    return config


def _schedule(layers: Sequence[LayerSpec], outputs: Sequence[int]) -> list[Step]:
    """The layers that `outputs` depend on."""
    needed = set(outputs)
    for layer in reversed(layers):
        if layer.index in needed:
            needed.update(layer.sources)
    last_use: dict[int, int] = {}
    for layer in layers:
        if layer.index in needed:
            last_use.update(dict.fromkeys(layer.sources, layer.index))
    finished: dict[int, list[int]] = {}
    for source, layer_index in last_use.items():
        if source not in outputs:
            finished.setdefault(layer_index, []).append(source)
    return [
        (layer.index, layer.sources, BLOCKS[layer.module].joins, tuple(finished.get(layer.index, ())))
        for layer in layers
        if layer.index in needed
    ]
