"""What a runtime offers: a loader `open(path, gpu=…)` gives a `Session`, which runs one exported file.

Loaders are named in `extensions.RUNTIMES`, by format. Each imports its library when it is called.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from yolofast.errors import UserError
from yolofast.export.formats.contract import Array, export_format
from yolofast.export.formats.facts import ExportFacts
from yolofast.extensions import EXPORT_FORMATS, RUNTIMES, found


class Session(ABC):
    """A file, opened. Several threads may call it at once."""

    facts: ExportFacts
    """What the file says of itself, checked: `facts_of(its metadata, path)`."""
    predicts: bool = True
    """Whether `predict` can be had; otherwise the file gives only the detections it suppresses itself."""

    @abstractmethod
    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The whole file: its outputs by name."""

    @abstractmethod
    def predict(self, images: Array) -> Array:
        """`[B, N, 5 + nc]` of `[B, 3, H, W]`, as `decode` gives them; the batch is one the file takes."""

    def layers(self, images: Array) -> Sequence[tuple[str, Array]]:
        """What the network's layers gave, by their names, in the order of computing; empty if the file cannot tell."""
        return ()

    def outputs(self, images: Array) -> Sequence[Array]:
        """All that the file gives, in order, whatever it means; for sessions that have no `layers`."""
        raise UserError("files of this format do not tell what their layers give", fix="--to onnx tells")


def checked(predictions: Array, facts: ExportFacts, path: Path) -> Array:
    """What a network gave, if it is what `Session.predict` promises."""
    wanted = 5 + len(facts.names)
    if predictions.ndim != 3 or predictions.shape[2] != wanted:
        shape = list(predictions.shape)
        what = f"its predictions have shape {shape}, but [batch, n, {wanted}] belongs to its classes"
        raise UserError(what, where=path, fix="export it again: it is damaged")
    return predictions


class Loader(Protocol):
    def __call__(self, path: Path, *, gpu: bool = False) -> Session:
        """`path` is the file that ends in the format's suffix. A missing extra, a file of another tool and a damaged
        one are `UserError`s."""


def open_session(path: str | Path, name: str, *, gpu: bool = False) -> Session:
    """The file of this format, or the one in a folder."""
    if name not in RUNTIMES:
        what = f"{export_format(name).title} files are written by yolofast, but not run"
        raise UserError(what, where=path, fix="use the weights, or export them with --to onnx")
    file = model_file(path, name)
    if not file.is_file():
        raise UserError("there is no such file", where=file, fix="check the path given for the weights")
    loader: Loader = found(RUNTIMES[name])
    return loader(file, gpu=gpu)


def format_of(path: str | Path) -> str | None:
    """The format a place has, by its name or what is in it; None: it is no export that runs here."""
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
