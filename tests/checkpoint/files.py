"""Files for the tests of this folder: published-style checkpoints, and zips and pickles written by hand."""

import copy
import sys
import types
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import nn

GRAPH = {"nc": 2, "depth_multiple": 1.0, "anchors": [[10, 13, 16, 30]], "backbone": [[-1, 1, "Conv", [32, 3, 1]]]}
NAMES = ["cat", "dog"]


class Conv(nn.Module):
    """Published in `models.common`; the fixture moves it there."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, bias=False)
        self.bn = nn.BatchNorm2d(4)
        self.act = nn.SiLU()


class Detect(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.m = nn.ModuleList(nn.Conv2d(4, 21, 1) for _ in range(2))
        self.register_buffer("anchors", torch.arange(12.0).view(2, 3, 2))
        self.register_buffer("scratch", torch.zeros(3), persistent=False)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(Conv(), Conv(), Detect())
        self.yaml, self.nc, self.names = GRAPH, 2, list(NAMES)
        self.stride = torch.tensor([8.0, 16.0])
        self.hyp = {"lr0": 0.01, "fitness": np.float64(0.25)}


@contextmanager
def published_modules() -> Iterator[None]:
    """`models.yolo` and `models.common` exist inside and are gone afterwards, as on a user's machine."""
    homes = {"models": (), "models.common": (Conv,), "models.yolo": (Detect, Model)}
    originals = {cls: cls.__module__ for classes in homes.values() for cls in classes}
    for name, classes in homes.items():
        sys.modules[name] = types.ModuleType(name)
        for cls in classes:
            cls.__module__ = name
            setattr(sys.modules[name], cls.__name__, cls)
    try:
        yield
    finally:
        for name in homes:
            del sys.modules[name]
        for cls, module in originals.items():
            cls.__module__ = module


def save_published(path: Path, *, with_ema: bool = True, legacy: bool = False) -> tuple[Model, Model]:
    """A checkpoint as the published trainer writes it; returns the (model, ema) that went in."""
    torch.manual_seed(0)
    model = Model().half()
    ema = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in ema.parameters():
            parameter.add_(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    content = {
        "epoch": 3,
        "best_fitness": np.array([0.1]),
        "training_results": "0/1 text",
        "model": model,
        "ema": ema if with_ema else None,
        "updates": 12,
        "optimizer": optimizer.state_dict(),
        "wandb_id": None,
    }
    with published_modules(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the old container looks for the source text of the classes
        torch.save(content, path, _use_new_zipfile_serialization=not legacy)
    return model, ema


def write_zip(path: Path, entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    """A zip with exactly these entries, names as given."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=compression)
    return path


def write_pickle(path: Path, pickle: bytes, storages: dict[str, bytes] | None = None) -> Path:
    """A torch zip around a pickle written by hand."""
    storages = {f"archive/data/{key}": content for key, content in (storages or {}).items()}
    return write_zip(path, {"archive/data.pkl": pickle, "archive/byteorder": b"little", **storages})


def text(value: str) -> bytes:
    """Pickle opcodes that push a str."""
    return b"X" + len(value.encode()).to_bytes(4, "little") + value.encode()


def integer(value: int) -> bytes:
    """Pickle opcodes that push an int."""
    encoded = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(encoded)]) + encoded


def group(*values: bytes) -> bytes:
    """Pickle opcodes that push a tuple."""
    return b"(" + b"".join(values) + b"t"


def tensor(
    numel: int = 4,
    size: tuple[int, ...] = (4,),
    stride: tuple[int, ...] = (1,),
    offset: int = 0,
    key: str = "0",
    storage: str = "FloatStorage",
) -> bytes:
    """Pickle opcodes that push a tensor as torch describes it, with any numbers."""
    reference = group(text("storage"), f"ctorch\n{storage}\n".encode(), text(key), text("cuda:0"), integer(numel))
    arguments = group(
        reference + b"Q", integer(offset), group(*map(integer, size)), group(*map(integer, stride)), b"\x89", b"}"
    )
    return b"ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"R"


def state_dict(value: bytes) -> bytes:
    """A whole pickle of {'weight': value}."""
    return b"\x80\x02}" + text("weight") + value + b"s."
