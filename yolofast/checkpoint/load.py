"""`load_weights`: a file's tensors into a model, all of them or a reported part.

Loading is decided on names and shapes before anything is copied, so a refused file leaves the model as it was.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from yolofast.checkpoint.foreign import WeightFile
from yolofast.checkpoint.read import read_weights
from yolofast.errors import UserError

SHOWN = 5
REGROUPED = "the head owns other classes"
_TRAINING_ONLY = (".ia.", ".im.", ".m2.")
"""Implicit tensors and auxiliary heads: only training graphs have them."""


@dataclass(frozen=True)
class TensorEntry:
    """One tensor of the file, the model or both; a shape is None on the side that lacks it, `reason` '' if loaded."""

    name: str
    file_shape: tuple[int, ...] | None
    model_shape: tuple[int, ...] | None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class LoadReport:
    """What happened to every tensor. One whose shape differs is both skipped (file) and missing (model)."""

    path: Path
    kind: str
    loaded: tuple[TensorEntry, ...]
    skipped: tuple[TensorEntry, ...]
    """In the file, not loaded."""
    missing: tuple[TensorEntry, ...]
    """In the model, left as initialised."""
    total: int
    """Tensors in the model's state dict."""
    nonfinite: int
    """Loaded tensors that hold NaN or infinity."""
    names: tuple[str, ...] | None
    nc: int | None
    epoch: int | None

    def __str__(self) -> str:
        lines = [f"loaded {len(self.loaded)} of {self.total} tensors from {self.path.name} ({self.kind})"]
        if self.skipped:
            lines.append(f"in the file, not loaded: {_some(self.skipped)}")
        if self.missing:
            lines.append(f"in the model, left as initialised: {_some(self.missing)}")
        if self.nonfinite:
            lines.append(f"{self.nonfinite} loaded tensors hold NaN or infinity")
        return "\n".join(lines)

    def rows(self) -> list[tuple[str, str, str, str]]:
        """(status, name, file shape, model shape), each tensor once: for a table."""
        absent = tuple(entry for entry in self.missing if entry.file_shape is None)
        groups = (("loaded", self.loaded), ("skipped", self.skipped), ("missing", absent))
        return [
            (
                f"{status}: {entry.reason}" if entry.reason else status,
                entry.name,
                _shape(entry.file_shape),
                _shape(entry.model_shape),
            )
            for status, entries in groups
            for entry in entries
        ]


def load_weights(model: nn.Module, path: str | Path, transfer: bool = False) -> LoadReport:
    """Loads the weights of `path` into `model`, cast to the model's precision, and says what happened.

    Without `transfer`, file and model must hold the same names and shapes (step counters of batch normalisation may
    be absent). With it, tensors that agree in name and shape are loaded and the rest is reported. What would change
    the meaning of the model is omitted: anchors other than its own, and heads that own other classes (1B4H). A file
    that does not fit, or with `transfer` has nothing in common with the model, is a `UserError` and changes nothing.
    Class names come along when there is one for each class of the model.
    """
    return apply_weights(model, read_weights(path), Path(path), transfer, or_else="pass transfer=True")


def apply_weights(
    model: nn.Module, file: WeightFile, path: Path, transfer: bool, or_else: str | None = None
) -> LoadReport:
    """`load_weights` for a file that has been read already; `path` is for messages.

    `or_else` says how the caller's user asks for a transfer; None where nothing but the whole network will do.
    """
    own = {name: value for name, value in model.state_dict().items() if isinstance(value, Tensor)}
    regrouped = _grouping(file.head_config) not in (None, _grouping(getattr(model, "head_config", None)))
    report = _compare(path, file, own, keep_anchors=transfer, regrouped=regrouped)
    if not transfer:
        _require_all(report, or_else)
    if not report.loaded:
        raise UserError(
            f"none of its {len(file.tensors)} tensors fits the model by name and shape",
            where=path,
            fix=f"give weights of the same architecture; the file holds {_some(report.skipped)}",
        )
    model.load_state_dict({entry.name: file.tensors[entry.name] for entry in report.loaded}, strict=False)
    if file.names is not None and len(file.names) == getattr(model, "nc", None):
        model.names = file.names  # type: ignore[assignment]
    return report


def _compare(path: Path, file: WeightFile, own: dict[str, Tensor], keep_anchors: bool, regrouped: bool) -> LoadReport:
    def entry(name: str) -> TensorEntry:
        in_file, in_model = file.tensors.get(name), own.get(name)
        return TensorEntry(
            name,
            None if in_file is None else tuple(in_file.shape),
            None if in_model is None else tuple(in_model.shape),
            _obstacle(name, in_file, in_model, keep_anchors, regrouped),
        )

    entries = {name: entry(name) for name in file.tensors | own}
    loaded = tuple(entries[name] for name in own if not entries[name].reason)
    return LoadReport(
        path=path,
        kind=file.kind,
        loaded=loaded,
        skipped=tuple(entries[name] for name in file.tensors if entries[name].reason),
        missing=tuple(entries[name] for name in own if entries[name].reason),
        total=len(own),
        nonfinite=sum(not bool(torch.isfinite(file.tensors[entry.name]).all()) for entry in loaded),
        names=file.names,
        nc=file.nc,
        epoch=file.epoch,
    )


def _obstacle(name: str, in_file: Tensor | None, in_model: Tensor | None, keep_anchors: bool, regrouped: bool) -> str:
    """Why a tensor is not loaded; '' if it is."""
    if in_model is None:
        return "not in the model"
    if in_file is None:
        return "not in the file"
    if in_file.shape != in_model.shape:
        return "shape differs"
    if in_file.is_floating_point() != in_model.is_floating_point():
        return "type differs"  # a cast between counts and weights would load, and mean nothing
    if keep_anchors and is_anchor(name) and not torch.allclose(in_file.float(), in_model.float().cpu(), rtol=1e-3):
        return "the model's own anchors are kept"
    if regrouped and (".heads." in name or ".attention." in name):
        return REGROUPED
    return ""


def is_anchor(name: str) -> bool:
    return name.rpartition(".")[2] in ("anchors", "anchor_grid")


def _grouping(head_config: object) -> object:
    """Which head owns which classes, as plain lists; None for a model with one head."""
    assignments = head_config.get("head_assignments") if isinstance(head_config, dict) else None
    if not isinstance(assignments, dict):
        return None
    heads = [assignments[key] for key in sorted(assignments, key=str)]
    return [head.get("classes") if isinstance(head, dict) else head for head in heads]


def _require_all(report: LoadReport, or_else: str | None) -> None:
    """Raises unless file and model agree; counters of batch normalisation may be absent, as in old files."""
    absent = [
        entry for entry in report.missing if entry.file_shape is None and not entry.name.endswith("num_batches_tracked")
    ]
    extra = [entry for entry in report.skipped if entry.model_shape is None]
    differing = [entry for entry in report.skipped if entry.model_shape is not None]
    groups = (
        ("differ in shape, type or meaning", differing),
        ("are in the model but not in the file", absent),
        ("are in the file but not in the model", extra),
    )
    faults = [f"{len(entries)} {what}: {_some(tuple(entries))}" for what, entries in groups if entries]
    if not faults:
        return
    whole = "give weights of the whole network, or name the network they are of (--cfg)"
    fix = whole if or_else is None else f"{or_else} to load what matches"
    if any(entry.reason == REGROUPED for entry in differing):
        fix = f"give the head config the file was trained with (--head-config), or {fix}"
    if any(part in entry.name for entry in extra for part in _TRAINING_ONLY):
        fix = (
            "the file holds a training model and the model is a deploy graph: re-parameterise the file with "
            f"`yolofast reparam`, or use the training graph; or {fix}"
        )
    raise UserError(
        f"the weights do not fit the model ({len(report.loaded)} of {report.total} tensors do). " + "; ".join(faults),
        where=report.path,
        fix=fix,
    )


def _some(entries: tuple[TensorEntry, ...]) -> str:
    """The first few, with both shapes where both sides have one."""
    shown = ", ".join(_described(entry) for entry in entries[:SHOWN])
    return shown + (f", … ({len(entries)} in all)" if len(entries) > SHOWN else "")


def _described(entry: TensorEntry) -> str:
    file_shape, model_shape = _shape(entry.file_shape), _shape(entry.model_shape)
    if entry.file_shape is None or entry.model_shape is None:
        return f"{entry.name} ({file_shape if entry.model_shape is None else model_shape})"
    why = f": {entry.reason}" if file_shape == model_shape and entry.reason else ""
    return f"{entry.name} (file {file_shape}, model {model_shape}{why})"


def _shape(shape: tuple[int, ...] | None) -> str:
    if shape is None:
        return "-"
    return "×".join(map(str, shape)) or "scalar"
