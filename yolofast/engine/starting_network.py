"""The network a run starts from: that of `--cfg`, or the one the weights belong to, with what fits of the weights."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from yolofast.checkpoint.foreign import WeightFile
from yolofast.checkpoint.load import LoadReport, apply_weights, is_anchor
from yolofast.checkpoint.read import read_weights
from yolofast.errors import UserError
from yolofast.model.families import graph_of
from yolofast.model.head_config import read_head_config
from yolofast.model.network import Network, build_model, has_several_heads
from yolofast.own_command import own_command
from yolofast.resources import find_resource
from yolofast.yaml_file import read_yaml

_SHOWN = 2


@dataclass(frozen=True)
class Start:
    model: Network
    anew: frozenset[str]
    """Names of the parameters no weights were found for: they begin with random values."""


def starting_network(
    cfg: str, weights: str, nc: int, head_config: str, say: Callable[[str], None], anchors: int | None = None
) -> Start:
    """`cfg` and `weights` may be empty, but not both. `anchors` is their number per level, in place of the graph's."""
    graph = cfg if anchors is None or not cfg else {**read_yaml(find_resource(cfg, "cfg")).values, "anchors": anchors}
    if not weights:
        model = build_model(graph, nc, head_config or None)
        return Start(model, frozenset(name for name, _ in model.named_parameters()))
    file = read_weights(weights)
    model = build_model(graph, nc, head_config or None) if graph else _network_of(file, weights, nc, head_config)
    report = apply_weights(model, file, Path(weights), transfer=True)
    say(f"weights: {len(report.loaded)} tensors of {weights}{_anew(report)}")
    if report.nonfinite:
        what = f"{report.nonfinite} of its tensors hold values that are no numbers: it can learn nothing"
        raise UserError(what, where=weights, fix="take weights of an earlier epoch")
    missing = {entry.name for entry in report.missing}
    return Start(model, frozenset(name for name, _ in model.named_parameters() if name in missing))


def check_number_of_heads(heads: int, head_config: str) -> None:
    """`--heads` against the grouping, which decides; 0 is not given."""
    if not heads or not head_config:
        return
    found = len(read_head_config(head_config).heads)
    if found != heads:
        what = f"--heads is {heads}, but --head-config {head_config} groups the classes into {found}"
        raise UserError(what, fix=f"--heads {found}, or leave it away; `{own_command()} heads` makes groupings")


def _anew(report: LoadReport) -> str:
    """What of the network the file had nothing for: with other classes that is their predictions."""
    names = [entry.name for entry in report.missing]
    if not names:
        return ""
    some = ", ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")
    return f"; {len(names)} of the network's {report.total} start anew: {some}"


def _network_of(file: WeightFile, weights: str, nc: int, head_config: str) -> Network:
    """With the file's anchors: they were fitted to data, and what was learnt depends on them."""
    graph = file.graph or graph_of(file.tensors)
    if graph is None:
        what = f"a {file.kind} does not say which network it belongs to"
        raise UserError(what, where=weights, fix="name it with --cfg, such as --cfg yolov7-tiny")
    fits = file.head_config is not None and file.head_config.get("nc") == nc and has_several_heads(graph)
    model = build_model(graph, nc, head_config or (file.head_config if fits else None))
    own = model.state_dict()
    anchors = {n: t for n, t in file.tensors.items() if is_anchor(n) and n in own and t.shape == own[n].shape}
    model.load_state_dict(anchors, strict=False)
    return model
