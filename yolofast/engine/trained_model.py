"""A network with its weights, read from a file, and what the file says about how to use it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from yolofast.checkpoint.load import apply_weights
from yolofast.checkpoint.read import read_weights
from yolofast.errors import UserError
from yolofast.model.network import Network, build_model, has_several_heads
from yolofast.model.yolox_config import yolox_of


@dataclass(frozen=True)
class TrainedModel:
    model: Network
    names: tuple[str, ...]
    path: Path
    img_size: int | None
    """The size it was trained for, if the file knows."""

    @property
    def is_named(self) -> bool:
        """Whether the classes have names of their own; otherwise they are called by their numbers."""
        return self.names != tuple(map(str, range(len(self.names))))


def read_trained(weights: str | Path, cfg: str | None = None, head_config: str | None = None) -> TrainedModel:
    """`cfg` names the network for weights that do not hold theirs."""
    file = read_weights(weights)
    graph = cfg or file.graph or yolox_of(file.tensors)
    if graph is None:
        what = f"a {file.kind} does not say which network it belongs to"
        raise UserError(what, where=weights, fix="name it with cfg, such as --cfg yolov7-tiny")
    groups = head_config or (file.head_config if has_several_heads(graph) else None)
    model = build_model(graph, file.nc, groups)
    apply_weights(model, file, Path(weights), transfer=False)
    return TrainedModel(model, file.names or model.names, Path(weights), file.img_size)


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


def size_of(trained: Sequence[TrainedModel], asked: int | None) -> int:
    """The size asked for, or the largest one they were trained for, or the one usual for such networks."""
    return asked or max(one.img_size or one.model.inputs.size for one in trained)
