"""Weights → network, in one place: which file a command means, which network it belongs to, built and loaded.

`load_model` serves the tools, `starting_network` training, `read_trained` evaluation and prediction. Image sizes
follow from the network too: they are rounded up to whole strides, as published, with a warning.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from yolofast.checkpoint.foreign import WeightFile
from yolofast.checkpoint.load import LoadReport, apply_weights, is_anchor
from yolofast.checkpoint.read import read_weights
from yolofast.config.train import TrainConfig
from yolofast.config.yolox_recipe import shape_in_form
from yolofast.errors import UserError
from yolofast.export.runtimes.contract import format_of
from yolofast.export.runtimes.network import open_export
from yolofast.files.yaml_file import read_yaml
from yolofast.model.graph import graph_of
from yolofast.model.head_config import read_head_config
from yolofast.model.network import Network, build_model, has_several_heads
from yolofast.model.summary import network_name
from yolofast.precision import device_of
from yolofast.resources import find_resource
from yolofast.runs.layout import FILES
from yolofast.words import own_command


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
    return LoadedModel(model, _loaded(model, file, Path(weights), transfer, or_else), file.shape)


def network_of(
    file: WeightFile,
    weights: str | Path,
    cfg: str | None = None,
    nc: int | None = None,
    head_config: str | None = None,
) -> Network:
    """The network for the file's tensors, not loaded yet. `weights` is for messages.

    `cfg` names it for files that do not say. `nc` and `head_config` are the file's if they are not given.
    """
    graph = cfg or file.graph or graph_of(file.tensors)
    if graph is None:
        what = f"a {file.kind} does not say which network it belongs to"
        raise UserError(what, where=weights, fix="name it with --cfg, such as --cfg yolov7-tiny")
    # Heads own classes by the file's grouping unless another is given: weights mean nothing under a different one.
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


@dataclass(frozen=True)
class Start:
    model: Network
    anew: frozenset[str]
    """Names of the parameters no weights were found for: they begin with random values."""


def starting_network(
    cfg: str, weights: str, nc: int, head_config: str, say: Callable[[str], None], anchors: int | None = None,
    *, partly: bool = True,
) -> Start:  # fmt: skip
    """`cfg` and `weights` may be empty, but not both. `anchors` is their number per level, in place of the graph's.

    Unless weights may fit `partly`, those of another network are refused: some tensors always have the same shape.
    """
    graph = cfg if anchors is None or not cfg else {**read_yaml(find_resource(cfg, "cfg")).values, "anchors": anchors}
    if not weights:
        model = build_model(graph, nc, head_config or None)
        return Start(model, frozenset(name for name, _ in model.named_parameters()))
    file = read_weights(weights)
    if graph:
        model = build_model(graph, nc, head_config or None)
    else:
        model = network_of(file, weights, nc=nc, head_config=head_config)
    report = _loaded(model, file, Path(weights), transfer=True)
    if not partly and 2 * len(report.loaded) < report.total:
        raise _of_another_network(file, model, weights, cfg, report)
    missing = [entry.name for entry in report.missing]  # with other classes, their predictions
    some = ", ".join(missing[:2]) + (" …" if len(missing) > 2 else "")
    anew = f"; {len(missing)} of the network's {report.total} start anew: {some}" if missing else ""
    say(f"weights: {len(report.loaded)} tensors of {weights}{anew}")
    if report.nonfinite:
        what = f"{report.nonfinite} of its tensors hold NaN or infinity: nothing can be learnt from it"
        raise UserError(what, where=weights, fix="take weights of an earlier epoch")
    return Start(model, frozenset(name for name, _ in model.named_parameters() if name in missing))


def _loaded(model: Network, file: WeightFile, path: Path, transfer: bool, or_else: str | None = None) -> LoadReport:
    """`apply_weights`; a refusal says which network the weights are of, if it is another."""
    try:
        return apply_weights(model, file, path, transfer, or_else)
    except UserError as error:
        own, wanted = _name_of(file), network_name(model.graph_yaml)
        if not own or own == wanted:
            raise
        error.say(f"this is {own}{f', not {wanted}' * bool(wanted)}: {error.what}", error.fix)
        raise


def _of_another_network(file: WeightFile, model: Network, weights: str, cfg: str, report: LoadReport) -> UserError:
    own, wanted = _name_of(file), network_name(model.graph_yaml) or cfg
    what = f"this is {own or 'another network'}, not {wanted}: "
    what += f"only {len(report.loaded)} of {report.total} tensors fit by name and shape"
    fix = f"--cfg {own}, or weights of {wanted}" if own else f"weights of {wanted}"
    return UserError(what, where=weights, fix=f"{fix}; --transfer-weights starts from what fits")


def _name_of(file: WeightFile) -> str:
    """Of the packaged network that the weights are of; '' if it is none, or they do not say."""
    graph = file.graph or graph_of(file.tensors)
    return "" if graph is None else network_name(graph)


def check_number_of_heads(heads: int, head_config: str) -> None:
    """`--heads` against the grouping, which decides; 0 is not given."""
    if not heads or not head_config:
        return
    found = len(read_head_config(head_config).heads)
    if found != heads:
        what = f"--heads is {heads}, but --head-config {head_config} groups the classes into {found}"
        raise UserError(what, fix=f"--heads {found}, or omit it; `{own_command()} heads` makes groupings")


@dataclass(frozen=True)
class TrainedModel:
    model: Network
    names: tuple[str, ...]
    path: Path
    shape: tuple[int, int]
    """Height and width it was trained for, or those usual for such networks."""

    @property
    def is_named(self) -> bool:
        """Whether the classes have names of their own; otherwise they are called by their numbers."""
        return self.names != tuple(map(str, range(len(self.names))))


def read_trained(
    weights: str | Path, cfg: str | None = None, head_config: str | None = None, device: str = ""
) -> TrainedModel:
    """`cfg` names the network for weights that do not hold theirs. An exported file is opened by its runtime."""
    if (form := format_of(weights)) is not None:
        if given := "--cfg" * bool(cfg) or "--head-config" * bool(head_config):
            what = f"{given} is given, but an exported file holds its network"
            raise UserError(what, where=weights, fix=f"omit {given}")
        opened = open_export(weights, form, gpu=device_of(device).type == "cuda")
        return TrainedModel(opened.network, opened.network.names, opened.path, opened.network.facts.shape)
    file = read_weights(weights)
    model = network_of(file, weights, cfg, head_config=head_config)
    _loaded(model, file, Path(weights), transfer=False)
    shape = file.shape or (model.inputs.size, model.inputs.size)
    return TrainedModel(model, file.names or model.names, Path(weights), shape)


def read_all_trained(
    weights: Sequence[str | Path], cfg: str | None = None, head_config: str | None = None, device: str = ""
) -> list[TrainedModel]:
    """The networks of an ensemble; they must have the same classes. `device` is where exported files run."""
    trained = [read_trained(one, cfg, head_config, device) for one in weights]
    first = trained[0]
    for other in trained[1:]:
        if len(other.names) != len(first.names) or (other.is_named and first.is_named and other.names != first.names):
            what = f"{other.path} has other classes than {first.path}, so they cannot form an ensemble"
            raise UserError(what, fix="name weights that were trained on the same classes")
    return trained


def shape_of(trained: Sequence[TrainedModel], size: Sequence[int] | None) -> tuple[int, int]:
    """Height and width of the input: the given ones, or the largest they were trained for.

    One number is the long side, the form being that of training. With two different sides images are fitted into both,
    which changes the size of objects: a network detects them best at the scale it was trained at.
    """
    usual = max(one.shape[0] for one in trained), max(one.shape[1] for one in trained)
    if not size:
        return usual
    if len(size) == 1:
        square = usual[0] == usual[1]
        return (size[0], size[0]) if square else shape_in_form(usual, size[0])
    if size[0] != size[1] and not all(one.model.inputs.whole for one in trained):
        what = f"the size is {size[0]} {size[1]}, but height and width are for YOLOX"
        raise UserError(what, fix=f"give the long side alone: --img {max(size)}")
    return size[0], size[1]


def in_strides(
    sides: tuple[int, ...], stride: int, say: Callable[[str], None], setting: str = "--img"
) -> tuple[int, ...]:
    whole = tuple(-(-side // stride) * stride for side in sides)
    if whole != sides:
        given, used = (" ".join(map(str, sizes if len(set(sizes)) > 1 else sizes[:1])) for sizes in (sides, whole))
        say(f"warning: {setting} {given} is not a multiple of the stride {stride}: {used} is used")
    return whole


def with_whole_strides(config: TrainConfig, stride: int, say: Callable[[str], None]) -> TrainConfig:
    return dataclasses.replace(config, img_size=in_strides(config.img_size, stride, say))


def weights_of(names: Sequence[str], say: Callable[[str], object], project: str | Path = "runs/train") -> list[str]:
    """The named files, or best.pt of the latest run that has one, which is printed."""
    if names:
        return list(names)
    found = sorted(Path(project).glob(f"*/{FILES.weights}/{FILES.best}"), key=lambda path: path.stat().st_mtime_ns)
    if not found:
        fix = f"name a file: --weights best.pt; `{own_command()} weights` lists published ones"
        raise UserError("there is no run whose best.pt could be used", fix=fix)
    say(f"weights: {found[-1]}")
    return [str(found[-1])]
