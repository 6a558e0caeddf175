"""From an inert object graph to weights: which object holds them, and what else the file says about the model.

Shared references let a small file describe an exponentially large structure, so every walk has a depth and spends from
the budget of the file.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from yolofast.checkpoint.inert import Object
from yolofast.checkpoint.refusals import damaged
from yolofast.checkpoint.tensors import is_tensor
from yolofast.errors import UserError, shorten
from yolofast.files.budget import Budget

MAX_MODULE_DEPTH = 64
MAX_NAME_LENGTH = 1000
MAX_PLAIN_VALUES = 100_000
MAX_PLAIN_DEPTH = 32
MAX_IMG_SIZE = 32_768
_HOLDERS = ("ema", "model", "state_dict", "ddpm", "model_state_dict")
"""Entries that hold weights, the best first; the last two are TrackSSM's."""
FORMAT = "yolofast"
VERSION = 1

Build = Callable[[object], Tensor]
_LETTERS_PER_STEP = 16
_MODULE = 8
"""Steps that one takes."""


@dataclass(frozen=True, kw_only=True)
class WeightFile:
    """The weights of a file and what it says about the model they belong to; None where it says nothing."""

    tensors: dict[str, Tensor]
    kind: str
    """'yolov7 checkpoint', 'yolox checkpoint', 'yolofast checkpoint', 'state dict' or 'safetensors'."""
    source: str
    """Which entry of the file was taken: one of `_HOLDERS`, or 'file' for the file itself."""
    names: tuple[str, ...] | None = None
    nc: int | None = None
    graph: dict[str, Any] | None = None
    head_config: dict[str, Any] | None = None
    epoch: int | None = None
    img_size: int | None = None
    """Pixels of the long side the network was evaluated at in training."""
    img_shape: tuple[int, int] | None = None
    """Height and width of it, where they are stated: YOLOX's may differ."""
    motion: dict[str, Any] | None = None
    """Of a motion model: what its weights do not show."""

    @property
    def shape(self) -> tuple[int, int] | None:
        """Height and width the network was trained for."""
        return self.img_shape or (None if self.img_size is None else (self.img_size, self.img_size))


def weights_of(root: object, build: Build, budget: Budget) -> WeightFile:
    """The weights in a graph. The averaged model (`ema`) wins over the raw one, as in the published evaluation."""
    source, holder = _choose(root)
    top: Mapping[Any, object] = root if isinstance(root, dict) else {}
    _check_version(top)
    described = top if not isinstance(holder, Object) else {**top, **_mapping(holder.state)}
    tensors = {name: build(value) for name, value in _named(holder, budget)}
    if not tensors:
        raise _nothing_found(root)
    tensors = without_prefix(tensors, "module.")
    epoch = top.get("epoch", top.get("start_epoch"))
    graph = _plain_dict(described.get("yaml" if isinstance(holder, Object) else "graph"))
    names = _class_names(described.get("names"), budget)
    return WeightFile(
        tensors=tensors,
        kind=_kind(top, source, holder, tensors),
        source=source,
        names=names,
        nc=_class_count(described.get("nc"), graph, names),
        graph=graph,
        head_config=_plain_dict(described.get("head_config")),
        epoch=epoch if type(epoch) is int else None,
        img_size=_img_size(top),
        img_shape=_img_shape(top),
        motion=_plain_dict(top.get("motion")),
    )


def without_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """DistributedDataParallel puts `module.` before every name; when only some have it, it is a real name."""
    if not all(name.startswith(prefix) for name in tensors):
        return tensors
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}


def _class_names(value: object, budget: Budget) -> tuple[str, ...] | None:
    """From a list, or from {0: 'a', 1: 'b'}; None for anything else, also for names no terminal can show."""
    if isinstance(value, dict):
        value = [value.get(index) for index in range(len(value))]
    if not isinstance(value, list | tuple):
        return None
    budget.spend(sum(1 + len(name) // _LETTERS_PER_STEP for name in value if isinstance(name, str)))
    names = tuple(name for name in value if isinstance(name, str) and name.isprintable())
    return names if len(names) == len(value) > 0 else None


def _plain_dict(value: object) -> dict[str, Any] | None:
    """A copy of a dict of plain values with text keys at the top, or None when it is not one."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        return None
    left = MAX_PLAIN_VALUES  # shared references would unfold without end

    def copied(value: object, depth: int) -> Any:
        nonlocal left
        left -= 1 + (len(value) // _LETTERS_PER_STEP if isinstance(value, str) else 0)
        if left < 0 or depth > MAX_PLAIN_DEPTH:
            raise ValueError
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, list | tuple):
            return type(value)(copied(item, depth + 1) for item in value)
        if isinstance(value, dict) and all(type(key) in (int, str) for key in value):
            return {key: copied(item, depth + 1) for key, item in value.items()}
        raise ValueError

    try:
        return copied(value, 0)  # type: ignore[no-any-return]
    except ValueError:  # not plain, or too large to be a description
        return None


def _choose(root: object) -> tuple[str, object]:
    """The entry that holds the weights: a module, or a dict of tensors."""
    if isinstance(root, Object):
        return "file", root
    if isinstance(root, dict):
        for key in _HOLDERS:
            if isinstance(root.get(key), Object) or _is_state_dict(root.get(key)):
                return key, root[key]
        if _is_state_dict(root):
            return "file", root
    raise _nothing_found(root)


def _is_state_dict(value: object) -> bool:
    return (
        isinstance(value, dict)
        and len(value) > 0
        and all(isinstance(name, str) and is_tensor(tensor) for name, tensor in value.items())
    )


def _nothing_found(root: object) -> UserError:
    if isinstance(root, dict):
        shown = ", ".join(shorten(key) for key in list(root)[:12]) + (", …" if len(root) > 12 else "")
        there = f"a dictionary with the keys {shown}" if root else "an empty dictionary"
    else:
        there = f"a {type(root).__name__}"
    return UserError(
        f"no weights found: the file holds {there}",
        fix="give a checkpoint with weights under 'ema', 'model' or 'state_dict', or a plain state dict",
    )


def _named(holder: object, budget: Budget) -> Iterator[tuple[str, object]]:
    """(name, inert tensor) in the order of `state_dict()`, with names a terminal can show."""
    pairs = _walk_modules(holder, budget) if isinstance(holder, Object) else iter(_mapping(holder).items())
    for name, value in pairs:
        if len(name) > MAX_NAME_LENGTH or not name.isprintable():
            raise damaged(f"a tensor has the name {shorten(name)}")
        yield name, value


def _walk_modules(root: Object, budget: Budget) -> Iterator[tuple[str, object]]:
    pending: list[tuple[Object, str, int]] = [(root, "", 0)]
    while pending:
        module, prefix, depth = pending.pop()
        if depth > MAX_MODULE_DEPTH or len(prefix) > MAX_NAME_LENGTH:
            raise damaged("its modules contain one another without end")
        state = _mapping(module.state)
        things = sum(len(_mapping(state.get(group))) for group in ("_parameters", "_buffers", "_modules"))
        budget.spend(_MODULE + things * (1 + len(prefix) // _LETTERS_PER_STEP))  # their names start with it
        yield from _own_tensors(state, prefix)
        children = [
            (child, f"{prefix}{_text(name)}.", depth + 1)
            for name, child in _mapping(state.get("_modules")).items()
            if isinstance(child, Object)
        ]
        pending.extend(reversed(children))


def _own_tensors(state: Mapping[Any, object], prefix: str) -> Iterator[tuple[str, object]]:
    transient = state.get("_non_persistent_buffers_set")
    hidden = transient if isinstance(transient, set | frozenset) else frozenset()
    for group, skip in (("_parameters", frozenset()), ("_buffers", hidden)):
        for name, value in _mapping(state.get(group)).items():
            if value is not None and _text(name) not in skip:
                yield f"{prefix}{name}", value


def _mapping(value: object) -> Mapping[Any, object]:
    return value if isinstance(value, dict) else {}


def _text(name: object) -> str:
    if not isinstance(name, str) or len(name) > MAX_NAME_LENGTH:
        raise damaged("a module or tensor has a name that is not text")
    return name


def _img_size(top: Mapping[Any, object]) -> int | None:
    """Stated by a stripped checkpoint, or the last of the sizes in the settings of a run."""
    sizes = _mapping(top.get("config")).get("img_size")
    stated = sizes[-1] if isinstance(sizes, list | tuple) and sizes else top.get("img_size")
    return stated if type(stated) is int and 0 < stated <= MAX_IMG_SIZE else None


def _img_shape(top: Mapping[Any, object]) -> tuple[int, int] | None:
    sides = top.get("img_shape")
    if not isinstance(sides, list | tuple) or len(sides) != 2:
        return None
    if not all(type(side) is int and 0 < side <= MAX_IMG_SIZE for side in sides):
        return None
    return sides[0], sides[1]


def _class_count(value: object, graph: dict[str, Any] | None, names: tuple[str, ...] | None) -> int | None:
    for stated in (value, (graph or {}).get("nc")):
        if type(stated) is int and 0 < stated < 1_000_000:
            return stated
    return len(names) if names else None


def _check_version(top: Mapping[Any, object]) -> None:
    version = top.get("version")
    if top.get("format") == FORMAT and (type(version) is not int or version > VERSION):
        raise UserError(
            f"the checkpoint has format version {shorten(version)}, this yolofast reads up to {VERSION}",
            fix="upgrade yolofast",
        )


def _kind(top: Mapping[Any, object], source: str, holder: object, tensors: dict[str, Tensor]) -> str:
    if top.get("format") == FORMAT:
        return "yolofast checkpoint"
    if isinstance(holder, Object):
        return "yolox checkpoint" if holder.cls.module.startswith("yolox.") else "yolov7 checkpoint"
    if "start_epoch" in top or (source != "file" and any(name.startswith("backbone.backbone.") for name in tensors)):
        return "yolox checkpoint"
    return "state dict"
