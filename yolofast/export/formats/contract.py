"""What a format offers: `write` makes its file of a network. What runs such files is in `export/runtimes`.

Each library is an optional extra, imported when it is used.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy.typing as npt
from torch import Tensor, nn

from yolofast.decoding import decode
from yolofast.errors import UserError
from yolofast.export.formats.facts import ExportFacts
from yolofast.extensions import EXPORT_FORMATS, found
from yolofast.model.contract import Network
from yolofast.model.fuse import fuse

Array = npt.NDArray[Any]


class ExportFormat(ABC):
    title: str
    extra: str
    """What `pip install 'yolofast[…]'` adds for it."""
    suffix: str
    """Of its file."""
    folder: bool = False
    """It is several files."""
    of_onnx: bool = True
    """It is made of an ONNX graph, and so of an operator set."""
    raw: bool = False
    """It gives raw maps, which its runtime decodes."""
    suppressions: tuple[str, ...] = ("onnx", "none", "efficientnms")
    """What `--nms` can be; the first in place of what it cannot."""
    lacks: ClassVar[Mapping[str, str]] = {}
    """Flags whose effect this format cannot have, and why; `_given` lists those that a format may lack."""

    @abstractmethod
    def need(self) -> None:
        """Refuses if the extra is missing."""

    def refuse(self, facts: ExportFacts) -> None:
        """What this format cannot hold."""
        for flag in _given(facts):
            if flag in self.lacks:
                fix = f"omit {flag}, or --to onnx"
                raise UserError(f"{flag}: {self.lacks[flag]}", fix=fix)

    def network(self, model: Network, facts: ExportFacts) -> "DecodedNetwork":
        """What `write` is given."""
        return DecodedNetwork(model, half=facts.precision == "fp16")

    @abstractmethod
    def write(self, network: "DecodedNetwork", facts: ExportFacts, path: Path) -> None: ...

    @abstractmethod
    def python_lines(self, name: str, taken: str) -> tuple[str, str]:
        """Imports, and what runs the file of this name: from the array `taken` to a list `outputs`."""

    @abstractmethod
    def cpp_lines(self, name: str, facts: ExportFacts) -> tuple[str, str, str]:
        """Headers; what runs the file of this name on the `cv::Mat` named as the input; where an output then is, by its
        `{place}`, `{name}` and `{kind}` of number. Empty: these lines do not read it."""


def _given(facts: ExportFacts) -> list[str]:
    """Flags of this export that not every format has."""
    given = {
        "--nms efficientnms": facts.nms == "efficientnms",
        "--nms onnx": facts.nms == "onnx",
        "--threshold-inputs": facts.threshold_inputs,
        "--with-preprocessing": bool(facts.image_order),
        "--half": facts.precision == "fp16",
        "--int8": facts.precision == "int8",
        "--dynamic": facts.any_sides,
        "--dynamic batch": not facts.batch,
    }
    return [flag for flag, holds in given.items() if holds]


def export_format(name: str) -> ExportFormat:
    one: ExportFormat = found(EXPORT_FORMATS[name])
    return one


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
        self.eval()  # converters ask the outermost module

    def forward(self, images: Tensor) -> Tensor:
        raw = self.network(images.half() if self._half else images)
        return decode(raw[: self.layout.levels * self.layout.heads], self)


class LayerValues(DecodedNetwork):
    """Gives the values of all layers in place of predictions, in the order of computing; `told` are their names."""

    def __init__(self, network: Network, *, half: bool = False) -> None:
        super().__init__(network, half=half)
        self.told: list[str] = []
        self._values: list[Tensor] = []
        for name, module in self.network.named_modules():
            if name:
                module.register_forward_hook(self._keeping(name))

    def _keeping(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def keep(module: nn.Module, inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor):
                self.told.append(name)
                self._values.append(output.float() * 1)  # activations may work in place

        return keep

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        self.told, self._values = [], []
        self.network(images.half() if self._half else images)
        values, self._values = tuple(self._values), []
        return values
