"""A folded network as a captured detector runs it: convolutions with what is behind them, and joins for nothing.

A join reserves its map before the first of its sources is computed. Sources that are convolutions write into it, and
besides into a map of their own if another layer reads them; what is made otherwise is copied. Only graphs of layers are
joined so: other networks join in their own code.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from yolofast.fused.conv_act import IMAGE_CHANNELS, ConvAct
from yolofast.model.blocks import Concat, Conv, FusedRepConv, Upsample
from yolofast.model.contract import Network
from yolofast.model.graph import IMAGE
from yolofast.model.network import GraphNetwork
from yolofast.precision import without_kernels


class _Part(NamedTuple):
    """Of a joined map."""

    join: int
    """The layer."""
    first: int
    """Its first channel."""
    dense: bool
    """Others read the source too."""


class InferenceNetwork(nn.Module):
    """`network(images)` gives the raw maps; images have `channels`. It takes the folded network's layers over."""

    def __init__(self, folded: Network) -> None:
        super().__init__()
        self.layout, self.network = folded.layout, folded
        self._parts: dict[int, list[_Part]] = {}
        self._widths: dict[int, int] = {}
        of_images = _first_convolutions(folded)
        self.channels = IMAGE_CHANNELS if of_images else 3
        for parent in list(folded.modules()):
            for name, child in list(parent.named_children()):
                if (own := _as_one(parent, child, of_images=child in of_images)) is not None:
                    setattr(parent, name, own)
        if isinstance(folded, GraphNetwork):
            self._plan_joins(folded)

    def forward(self, images: Tensor) -> Sequence[Tensor]:
        if not isinstance(self.network, GraphNetwork):
            return self.network(images)  # type: ignore[no-any-return]
        maps: dict[int, Tensor] = {IMAGE: images}
        joints: dict[int, Tensor] = {}
        steps, outputs = self.network.inference_plan
        for layer, sources, joins, finished in steps:
            module, inputs = self.network.model[layer], [maps[source] for source in sources]
            if layer in self._widths:
                maps[layer] = self._copied(layer, joints.pop(layer), joints)
            elif joins:
                maps[layer] = self._copied(layer, module(inputs), joints)
            else:
                maps[layer] = self._computed(layer, module, inputs[0], joints)
            for index in finished:
                del maps[index]
        return self.network.head([maps[source] for source in outputs])  # type: ignore[no-any-return]

    def _computed(self, layer: int, module: nn.Module, x: Tensor, joints: dict[int, Tensor]) -> Tensor:
        parts = self._parts.get(layer, [])
        if parts and isinstance(module, ConvAct) and module.can_join:
            shape = torch.Size((len(x), module.out_channels, *module.size(x)))
            made = module.into(x, self._joint(parts[0], shape, x, joints), dense=parts[0].dense)
            return self._copied(layer, made, joints, after=1)
        if len(parts) == 1 and not parts[0].dense and isinstance(module, Upsample) and _doubles(module):
            batch, channels, height, width = x.shape
            own = self._joint(parts[0], torch.Size((batch, channels, 2 * height, 2 * width)), x, joints)
            cells = own.view(batch, channels, height, 2, width, 2)
            cells.copy_(x[:, :, :, None, :, None].expand_as(cells))
            return own
        return self._copied(layer, module(x), joints)

    def _copied(self, layer: int, made: Tensor, joints: dict[int, Tensor], after: int = 0) -> Tensor:
        for part in self._parts.get(layer, [])[after:]:
            self._joint(part, made.shape, made, joints).copy_(made)
        return made

    def _joint(self, part: _Part, shape: torch.Size, like: Tensor, joints: dict[int, Tensor]) -> Tensor:
        """The channels of a source in the map of a join, which is reserved if this is the first one."""
        if part.join not in joints:
            batch, _, *size = shape
            joints[part.join] = like.new_empty((batch, *size, self._widths[part.join])).permute(0, 3, 1, 2)
        return joints[part.join][:, part.first : part.first + shape[1]]

    @torch.no_grad()
    def _plan_joins(self, graph: GraphNetwork) -> None:
        steps, outputs = graph.inference_plan
        channels = self._channels_of_layers(graph)
        readers = dict.fromkeys(outputs, 1)
        for _, sources, _, _ in steps:
            for source in sources:
                readers[source] = readers.get(source, 0) + 1
        for layer, sources, _, _ in steps:
            joined = isinstance(graph.model[layer], Concat) and len(set(sources)) == len(sources)
            if not joined or IMAGE in sources or not any(isinstance(graph.model[one], ConvAct) for one in sources):
                continue
            first = 0
            for source in sources:
                self._parts.setdefault(source, []).append(_Part(layer, first, dense=readers[source] > 1))
                first += channels[source]
            self._widths[layer] = first

    def _channels_of_layers(self, graph: GraphNetwork) -> dict[int, int]:
        """Of the outputs, found by running it once on an image as small as its strides allow."""
        found: dict[int, int] = {}
        weight = next(one for one in graph.buffers() if one.is_floating_point() and one.ndim == 4)
        side = 2 * max(graph.layout.strides)

        def keeping(layer: int) -> object:
            def keep(module: nn.Module, inputs: object, output: Tensor) -> None:
                found[layer] = output.shape[1]

            return keep

        steps, _ = graph.inference_plan
        hooks = [graph.model[layer].register_forward_hook(keeping(layer)) for layer, *_ in steps]  # type: ignore[arg-type]
        with without_kernels():
            graph(weight.new_zeros(1, self.channels, side, side))
        for hook in hooks:
            hook.remove()
        return found


def _first_convolutions(folded: Network) -> set[nn.Module]:
    """All that read the image, if they are convolutions."""
    if not isinstance(folded, GraphNetwork):
        return set()
    readers = {folded.model[layer] for layer, sources, _, _ in folded.inference_plan[0] if IMAGE in sources}
    return readers if all(isinstance(one, Conv) and one.conv.groups == 1 for one in readers) else set()


def _as_one(parent: nn.Module, child: nn.Module, *, of_images: bool) -> ConvAct | None:
    if isinstance(child, Conv) and isinstance(child.bn, nn.Identity):
        return ConvAct(child.conv, child.act, of_images=of_images)
    if isinstance(child, FusedRepConv):
        return ConvAct(child.rbr_reparam, child.act)
    # Those that predict; the layers above have been replaced with all that they hold.
    predicts = type(child) is nn.Conv2d and child.bias is not None and not isinstance(parent, Conv | FusedRepConv)
    return ConvAct(child) if isinstance(child, nn.Conv2d) and predicts else None


def _doubles(module: Upsample) -> bool:
    return module.mode == "nearest" and module.size is None and module.scale_factor == 2
