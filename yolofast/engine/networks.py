"""Weights → network, in one place: which network a file belongs to, built and filled."""

from dataclasses import dataclass
from pathlib import Path

from yolofast.checkpoint.foreign import WeightFile
from yolofast.checkpoint.load import LoadReport, apply_weights, is_anchor
from yolofast.checkpoint.read import read_weights
from yolofast.errors import UserError
from yolofast.model.families import graph_of
from yolofast.model.network import Network, build_model, has_several_heads


@dataclass(frozen=True)
class LoadedModel:
    model: Network
    report: LoadReport | None = None
    """None without a weight file."""
    shape: tuple[int, int] | None = None
    """Height and width its weights were trained for, if their file says so."""


def load_model(
    cfg: str | None,
    weights: str | None,
    nc: int | None,
    head_config: str | None,
    transfer: bool,
    or_else: str | None = None,
) -> LoadedModel:
    """The model of `cfg`, or of the graph kept in `weights`; with `weights` loaded if they are given.

    `or_else` is the command's own flag for a transfer, if it has one.
    """
    if not weights:
        if not cfg:
            raise UserError("no model given", fix="name one with --cfg yolov7-tiny, or a file with --weights")
        return LoadedModel(build_model(cfg, nc, head_config))
    file = read_weights(weights)
    model = network_of(file, weights, cfg, nc, head_config)
    return LoadedModel(model, apply_weights(model, file, Path(weights), transfer, or_else), file.shape)


def network_of(
    file: WeightFile,
    weights: str | Path,
    cfg: str | None = None,
    nc: int | None = None,
    head_config: str | None = None,
) -> Network:
    """The network the file's tensors are to be loaded into. `weights` is for messages.

    `cfg` names it for files that do not say. `nc` and `head_config` are the file's if they are not given.
    """
    graph = cfg or file.graph or graph_of(file.tensors)
    if graph is None:
        what = f"a {file.kind} does not say which network it belongs to"
        raise UserError(what, where=weights, fix="name it with --cfg, such as --cfg yolov7-tiny")
    # Heads own classes by the file's grouping unless another is asked for: weights mean nothing under a different one.
    fits = file.head_config is not None and (nc is None or file.head_config.get("nc") == nc)
    groups = head_config or (file.head_config if fits and has_several_heads(graph) else None)
    model = build_model(graph, file.nc if nc is None else nc, groups)
    if not cfg:
        # Nothing but the file says what the model is, so its anchors are the model's own, also in a transfer: they were
        # fitted to data, and what was learnt depends on them.
        own = model.state_dict()
        anchors = {n: t for n, t in file.tensors.items() if is_anchor(n) and n in own and t.shape == own[n].shape}
        model.load_state_dict(anchors, strict=False)
    return model
