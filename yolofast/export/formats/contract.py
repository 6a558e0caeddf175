"""What a format offers: `write` makes its file of a network, `open` runs such a file.

Each runtime is an optional extra, imported when it is used.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from yolofast.decoding import decode
from yolofast.errors import UserError
from yolofast.export.formats.facts import ExportFacts
from yolofast.extensions import EXPORT_FORMATS, found
from yolofast.model.contract import Network
from yolofast.model.fuse import fuse
from yolofast.structures import HeadLayout

Array = npt.NDArray[Any]


class Session(ABC):
    """A file, opened. Whatever its outputs are, it also gives what its network alone predicts."""

    facts: ExportFacts

    @abstractmethod
    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The whole file: its outputs by name."""

    @abstractmethod
    def predict(self, images: Array) -> Array:
        """`[B, N, 5 + nc]` of `[B, 3, H, W]`, as `decode` gives them; the batch is one the file takes."""

    @abstractmethod
    def layers(self, images: Array) -> "Sequence[tuple[str, Array]]":
        """What the network's layers gave, by their names, in the order of computing; empty if the file cannot tell."""


class ExportFormat(ABC):
    title: str
    extra: str
    """What `pip install 'yolofast[…]'` adds for it."""
    suffix: str
    """Of its file."""
    folder: bool = False
    """It is several files."""

    @abstractmethod
    def need(self) -> None:
        """Refuses if the extra is missing."""

    @abstractmethod
    def write(self, network: "DecodedNetwork", facts: ExportFacts, path: Path) -> None: ...

    @abstractmethod
    def python_lines(self, name: str, taken: str) -> tuple[str, str]:
        """Imports, and what runs the file of this name: from the array `taken` to a list `outputs`."""

    @abstractmethod
    def cpp_lines(self, name: str, facts: ExportFacts) -> str: ...

    @abstractmethod
    def open(self, path: Path, *, gpu: bool = False) -> Session: ...


def needed(package: str, extra: str, wanted_by: str) -> Any:
    """The package, imported."""
    try:
        return import_module(package)
    except ImportError as error:
        what = f"{wanted_by} needs {package}, which is not installed"
        raise UserError(what, fix=f"pip install 'yolofast[{extra}]'") from error


def export_format(name: str) -> ExportFormat:
    one: ExportFormat = found(EXPORT_FORMATS[name])
    return one


def format_of(path: str | Path) -> str | None:
    """The format a place has, by its name or what is in it; None: it is no export."""
    place = Path(path)
    for name in EXPORT_FORMATS:
        suffix = export_format(name).suffix
        if place.suffix.lower() == suffix or (place.is_dir() and any(place.glob(f"*{suffix}"))):
            return name
    return None


def model_file(path: str | Path, name: str) -> Path:
    """The model of this format in a folder, or the file itself."""
    place, suffix = Path(path), export_format(name).suffix
    if not place.is_dir():
        return place
    models = sorted(place.glob(f"*{suffix}"))
    if len(models) != 1:
        what = f"the folder has {len(models)} files that end in {suffix}"
        raise UserError(what, where=place, fix="name the file itself")
    return models[0]


class DecodedNetwork(nn.Module):
    """What is exported: prepared images in, predictions `[B, N, 5 + nc]` out. Layers are folded.

    With `half` the layers compute in half precision; boxes are decoded in fp32 from anchors in fp32.
    """

    anchors_px: Tensor
    class_columns: Tensor | None

    def __init__(self, network: Network, *, half: bool = False) -> None:
        super().__init__()
        folded = fuse(network).cpu().eval().requires_grad_(False)
        self.layout, self._half = folded.layout, half
        self.register_buffer("anchors_px", folded.anchors_px.float().clone())
        columns = folded.class_columns
        self.register_buffer("class_columns", None if columns is None else columns.clone())
        self.network = folded.half() if half else folded

    def forward(self, images: Tensor) -> Tensor:
        raw = self.network(images.half() if self._half else images)
        return decode(raw[: self.layout.levels * self.layout.heads], self)


class ExportedNetwork(Network):
    """An exported file in place of the network it was made of, for everything that detects."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        facts = session.facts
        self._session, self.facts = session, facts
        self.family, self.names, self.nc = facts.family, facts.names, len(facts.names)
        self.inputs, self.validation = facts.inputs, facts.validation

    @property
    def layers(self) -> tuple[()]:
        return ()

    @property
    def layout(self) -> HeadLayout:
        return HeadLayout(kind="decoded", nc=self.nc, strides=self.facts.strides, anchors_per_cell=1)

    @property
    def anchors_px(self) -> Tensor:
        return torch.zeros(0)

    @property
    def graph_yaml(self) -> dict[str, Any]:
        return {}

    def forward(self, images: Tensor) -> list[Tensor]:
        """One "map": the predictions, decoded."""
        facts, levels = self.facts, images.float().cpu().numpy()
        if not facts.any_sides and levels.shape[2:] != facts.shape:
            height, width = facts.shape
            what = f"the exported file takes images of {height}×{width} pixels, not {levels.shape[2]}×{levels.shape[3]}"
            raise UserError(what, fix="omit --img and --augment, or export with --dynamic")
        step = facts.batch or len(levels)
        parts = [self._session.predict(_filled(levels[i : i + step], step)) for i in range(0, len(levels), step)]
        return [torch.from_numpy(np.concatenate(parts)[: len(levels)]).to(images.device)]


def _filled(images: Array, batch: int) -> Array:
    """Up to the batch the file was made for."""
    missing = batch - len(images)
    return images if not missing else np.concatenate((images, np.zeros_like(images[:1]).repeat(missing, axis=0)))


@dataclass(frozen=True)
class OpenedExport:
    network: ExportedNetwork
    path: Path


def open_export(path: str | Path, name: str, *, gpu: bool = False) -> OpenedExport:
    """The file of this format as a network."""
    file = model_file(path, name)
    if not file.is_file():
        raise UserError("there is no such file", where=file, fix="check the path given for the weights")
    one = export_format(name)
    one.need()
    return OpenedExport(ExportedNetwork(one.open(file, gpu=gpu)), file)
