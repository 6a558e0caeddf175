"""Training graph to deploy graph: the same detector without what only training needs.

The deploy graph is made from the training graph itself, so it works for user files too; for the published files it is
the published deploy graph. IDetect and IAuxDetect become Detect with the implicit vectors folded in. The layers
that only feed auxiliary maps are left out, which moves the head to a lower index (w6: 122 to 118).
"""

import copy
from typing import Any

import torch
from torch import Tensor

from yolofast.errors import UserError
from yolofast.model.contract import Network
from yolofast.model.fuse import fold_implicit
from yolofast.model.heads import IAuxDetect, IBin, IDetect
from yolofast.model.network import GraphNetwork, build_model


@torch.no_grad()
def reparameterise(model: Network) -> Network:
    """The deploy form of a trained model, on the CPU and in evaluation mode. RepConv stays as it is until `fuse`."""
    if not isinstance(model, GraphNetwork):
        raise UserError("YOLOX has no deploy form: it is one network", fix="use it as it is, or fuse() it")
    head = model.head
    if not isinstance(head, IDetect) or isinstance(head, IBin):
        what = f"a model that ends in {type(head).__name__} has no deploy form"
        raise UserError(what, where=model.graph.where, fix="give a training model that ends in IDetect or IAuxDetect")
    layers = model.inference_layers
    deploy = build_model(_deploy_graph(model, layers))
    folded = copy.deepcopy(head).float().cpu()
    fold_implicit(folded)
    source = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
    last = len(model.model) - 1
    source |= {f"model.{last}.{name}": tensor for name, tensor in folded.state_dict().items()}
    renamed: dict[str, Tensor] = {}
    for new, old in enumerate([*layers, last]):
        prefix = f"model.{old}."
        renamed |= {f"model.{new}.{name[len(prefix) :]}": t for name, t in source.items() if name.startswith(prefix)}
    needed = deploy.state_dict()
    if not needed.keys() <= renamed.keys():
        raise UserError(
            "the model has been fused already", where=model.graph.where, fix="re-parameterise before fuse()"
        )
    deploy.load_state_dict({name: renamed[name] for name in needed})
    deploy.names = model.names
    return deploy.eval()


def _deploy_graph(model: GraphNetwork, layers: list[int]) -> dict[str, Any]:
    """The plain values of a graph of these layers, renumbered, that ends in Detect."""
    place = {old: new for new, old in enumerate(layers)}
    rows = []
    for new, old in enumerate(layers):
        layer = model.graph.layers[old]
        sources = [-1 if source < 0 or place[source] == new - 1 else place[source] for source in layer.sources]
        rows.append([sources if len(sources) > 1 else sources[0], layer.repeats, layer.module, list(layer.args)])
    head = model.graph.layers[-1]
    lead = head.sources[: model.layout.levels] if isinstance(model.head, IAuxDetect) else head.sources
    rows.append([[place[source] for source in lead], 1, "Detect", ["nc", "anchors"]])
    backbone = sum(layer < model.graph.backbone_layers for layer in layers)
    # Repeats are already scaled, so the depth multiple must not scale them again.
    return {
        **{key: model.graph.source[key] for key in ("nc", "width_multiple", "names") if key in model.graph.source},
        "anchors": [level.flatten().tolist() for level in model.anchors_px],
        "backbone": rows[:backbone],
        "head": rows[backbone:],
    }
