"""A network with its weights, read from a file, and what the file says about how to use it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from yolofast.checkpoint.load import apply_weights
from yolofast.checkpoint.read import read_weights
from yolofast.config.yolox_recipe import shape_in_form
from yolofast.errors import UserError
from yolofast.model.families import graph_of
from yolofast.model.network import Network, build_model, has_several_heads


@dataclass(frozen=True)
class TrainedModel:
    model: Network
    names: tuple[str, ...]
    path: Path
    img_size: int | None
    """The size it was trained for, if the file knows."""
    img_shape: tuple[int, int] | None = None
    """Height and width of it, if the file says both."""

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width it was trained for, or those usual for such networks."""
        size = self.img_size or self.model.inputs.size
        return self.img_shape or (size, size)

    @property
    def is_named(self) -> bool:
        """Whether the classes have names of their own; otherwise they are called by their numbers."""
        return self.names != tuple(map(str, range(len(self.names))))


def read_trained(weights: str | Path, cfg: str | None = None, head_config: str | None = None) -> TrainedModel:
    """`cfg` names the network for weights that do not hold theirs."""
    file = read_weights(weights)
    graph = cfg or file.graph or graph_of(file.tensors)
    if graph is None:
        what = f"a {file.kind} does not say which network it belongs to"
        raise UserError(what, where=weights, fix="name it with cfg, such as --cfg yolov7-tiny")
    groups = head_config or (file.head_config if has_several_heads(graph) else None)
    model = build_model(graph, file.nc, groups)
    apply_weights(model, file, Path(weights), transfer=False)
    return TrainedModel(model, file.names or model.names, Path(weights), file.img_size, file.img_shape)


def read_all_trained(
    weights: Sequence[str | Path], cfg: str | None = None, head_config: str | None = None
) -> list[TrainedModel]:
    """Several networks to be asked together; they must know the same classes."""
    trained = [read_trained(one, cfg, head_config) for one in weights]
    first = trained[0]
    for other in trained[1:]:
        if len(other.names) != len(first.names) or (other.is_named and first.is_named and other.names != first.names):
            what = f"{other.path} knows other classes than {first.path}, so they cannot be asked together"
            raise UserError(what, fix="name weights that were trained on the same classes")
    return trained


def shape_of(trained: Sequence[TrainedModel], asked: Sequence[int] | None) -> tuple[int, int]:
    """Height and width to look at pictures with: those asked for, or the largest they were trained for.

    One number is the long side, the form being that of training. Where the sides differ, pictures are fitted into both,
    which changes how large objects look: a network learnt them at one scale, and knows them best at it.
    """
    usual = max(one.shape[0] for one in trained), max(one.shape[1] for one in trained)
    if not asked:
        return usual
    if len(asked) == 1:
        square = usual[0] == usual[1]
        return (asked[0], asked[0]) if square else shape_in_form(usual, asked[0])
    if asked[0] != asked[1] and not all(one.model.inputs.whole for one in trained):
        what = f"the size is {asked[0]} {asked[1]}, but height and width are for YOLOX"
        raise UserError(what, fix=f"give the long side alone: --img {max(asked)}")
    return asked[0], asked[1]
