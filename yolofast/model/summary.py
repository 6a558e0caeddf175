"""What a network is made of and what it costs, found on the meta device: no memory, no arithmetic, any image size."""

import copy
import math
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from yolofast.errors import UserError
from yolofast.files.yaml_file import read_yaml
from yolofast.model.contract import Layer, Network
from yolofast.resources import ROOT

_NOT_OF_THE_ARCHITECTURE = ("nc", "names", "anchors", "image_size", "ch")
_USUAL = {"depth_multiple": 1.0, "width_multiple": 1.0, "depthwise": False}
# BatchNorm refuses to train on a single value per channel, so the probe is a batch of two; figures are per image.
_PROBE_BATCH = 2


@dataclass(frozen=True, kw_only=True)
class LayerRow:
    """One layer, or a run of layers: `first` to `last`."""

    part: str
    """`backbone`, `neck` or `head`."""
    name: str
    first: int
    last: int
    parameters: int
    trainable: int
    gflops: float
    output: tuple[int, ...]

    @property
    def state(self) -> str:
        if self.parameters == 0:
            return "-"
        if self.trainable in (0, self.parameters):
            return "trainable" if self.trainable else "frozen"
        return "partly frozen"


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Figures per image, of the network in training mode (auxiliary layers included). GFLOPs are 2 × conv MACs."""

    nc: int
    image_size: tuple[int, int]
    strides: tuple[int, ...]
    parameters: int
    trainable: int
    gflops: float
    activation_bytes: int
    """What eager autograd keeps for the backward pass in float32; about half under bf16 or fp16 autocast."""
    outputs: tuple[tuple[int, ...], ...]
    """Shapes of the raw maps of one image at inference."""
    sections: tuple[LayerRow, ...]
    layers: tuple[LayerRow, ...]
    numbered: bool
    """Layers are known by their numbers; otherwise by their names."""

    @property
    def parts(self) -> dict[str, int]:
        """Parameters of backbone, neck and head."""
        totals: dict[str, int] = {}
        for row in self.layers:
            totals[row.part] = totals.get(row.part, 0) + row.parameters
        return totals


def summarise(model: Network, image_size: tuple[int, int], frozen: Set[int] = frozenset()) -> Summary:
    """`image_size` is height, width; `frozen` are layer indices that will not be trained."""
    step = math.lcm(*model.layout.strides)
    if any(side < step or side % step for side in image_size):
        better = " ".join(str(max(step, round(side / step) * step)) for side in dict.fromkeys(image_size))
        what = f"image size {'×'.join(map(str, image_size))} is not a multiple of the largest stride, {step}"
        raise UserError(what, fix=f"use --img {better}")
    probe = copy.deepcopy(model).to("meta").train()
    shapes: dict[int, tuple[int, ...]] = {}
    macs: dict[int, int] = dict.fromkeys(range(len(probe.layers)), 0)
    for index, layer in enumerate(probe.layers):
        layer.module.register_forward_hook(partial(_record_shape, shapes, index))
        for module in layer.module.modules():
            if isinstance(module, nn.Conv2d):
                module.register_forward_hook(partial(_count_macs, macs, index))
            elif isinstance(module, nn.BatchNorm2d):
                module.forward = partial(_scaled, module.weight)  # type: ignore[method-assign]
    saved = _SavedBytes(probe)
    images = torch.empty(_PROBE_BATCH, 3, *image_size, device="meta")
    with torch.autograd.graph.saved_tensors_hooks(saved, lambda tensor: tensor):
        probe(images)
    layers = tuple(
        _layer_row(layer, index, shapes.get(index, ()), macs[index], index in frozen, model.numbered)
        for index, layer in enumerate(probe.layers)
    )
    with torch.no_grad():
        outputs = tuple((1, *raw.shape[1:]) for raw in probe.eval()(images))
    return Summary(
        nc=model.nc,
        image_size=image_size,
        strides=model.layout.strides,
        parameters=sum(row.parameters for row in layers),
        trainable=sum(row.trainable for row in layers),
        gflops=sum(row.gflops for row in layers),
        activation_bytes=saved.total // _PROBE_BATCH,
        outputs=outputs,
        sections=_sections(layers, image_size[0]) if model.numbered else layers,
        layers=layers,
        numbered=model.numbered,
    )


class _SavedBytes:
    """Counts each storage autograd keeps once, leaving out the parameters themselves."""

    def __init__(self, model: nn.Module) -> None:
        # Storages are held, not only their addresses: a freed address may be given to another map.
        self._counted = {t.untyped_storage()._cdata: t for t in (*model.parameters(), *model.buffers())}
        # What each BatchNorm keeps beside its map: a mean and a deviation per channel.
        self.total = sum(8 * m.num_features for m in model.modules() if isinstance(m, nn.BatchNorm2d))

    def __call__(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._counted:
            self._counted[storage._cdata] = tensor
            self.total += storage.nbytes()
        return tensor


def _scaled(weight: Tensor, maps: Tensor) -> Tensor:
    """For the same shapes and the same map that autograd keeps; torch spends 5 ms on a BatchNorm without values."""
    return maps * weight[:, None, None]


def _record_shape(
    shapes: dict[int, tuple[int, ...]], index: int, module: nn.Module, inputs: object, output: object
) -> None:
    if isinstance(output, Tensor):
        shapes[index] = tuple(output.shape[1:])


def _count_macs(macs: dict[int, int], index: int, conv: nn.Conv2d, inputs: object, output: Tensor) -> None:
    macs[index] += output.numel() // _PROBE_BATCH * (conv.weight.numel() // conv.out_channels)


def _layer_row(layer: Layer, index: int, output: tuple[int, ...], macs: int, frozen: bool, numbered: bool) -> LayerRow:
    parameters = sum(p.numel() for p in layer.module.parameters())
    return LayerRow(
        part=layer.part,
        name=layer.name if numbered else layer.scope,
        first=index,
        last=index,
        parameters=parameters,
        trainable=0 if frozen else parameters,
        gflops=2 * macs / 1e9,
        output=output,
    )


def _sections(layers: tuple[LayerRow, ...], height: int) -> tuple[LayerRow, ...]:
    """Runs of layers of one part (backbone, neck, head) and one stride."""
    runs: dict[tuple[int, str], list[LayerRow]] = {}
    previous, level, run = "", "", -1
    for row in layers:
        # The head's own convolutions work side by side on all levels, so they are one section.
        # A layer nothing depends on has no output; it is counted with the one before it.
        level = level if not row.output else f"P{round(math.log2(height / row.output[1]))}"
        name = row.part if row.part == "head" else f"{row.part} {level}".rstrip()
        run, previous = (run, previous) if name == previous else (run + 1, name)
        runs.setdefault((run, name), []).append(row)
    return tuple(
        LayerRow(
            part=rows[0].part,
            name=name,
            first=rows[0].first,
            last=rows[-1].last,
            parameters=sum(row.parameters for row in rows),
            trainable=sum(row.trainable for row in rows),
            gflops=sum(row.gflops for row in rows),
            output=rows[-1].output,
        )
        for (_, name), rows in runs.items()
    )


def network_name(graph: Mapping[str, Any]) -> str:
    """The short name of the packaged network that has these layers, whatever its classes and anchors; '' if none has.

    Of graphs that differ in anchors alone (`yolov7-320`) it is the one without a size.
    """
    return next((name for name, layers in _packaged() if layers == _architecture(graph)), "")


def _architecture(graph: Mapping[str, Any]) -> dict[str, Any]:
    return _USUAL | {key: value for key, value in graph.items() if key not in _NOT_OF_THE_ARCHITECTURE}


@cache
def _packaged() -> tuple[tuple[str, dict[str, Any]], ...]:
    """Training graphs, then those to deploy, as published weights are."""
    folders = ("cfg/training", "cfg/yolox", "cfg/deploy")
    paths = [path for folder in folders for path in sorted((ROOT / folder).glob("*.yaml"), key=lambda one: one.stem)]
    return tuple((path.stem, _architecture(read_yaml(path).values)) for path in paths)
