"""What every detection network offers, whatever it is made of: all that training and evaluating may know of one.

There are two kinds: `GraphNetwork` (YOLOv7, read from a yaml of layers) and `YoloX` (Python modules). Both keep the
published names in their state dicts, so neither could be written as the other.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from yolofast.files.yaml_file import YamlFile
from yolofast.structures import HeadLayout, InputConvention, ValidationConvention


@dataclass(frozen=True)
class Layer:
    """A part of a network that is listed, frozen and trained as a whole."""

    part: str
    """`backbone`, `neck` or `head`."""
    name: str
    module: nn.Module

    @property
    def scope(self) -> str:
        return f"{self.part}.{self.name}"


class Network(nn.Module, ABC):
    """`model(images)` gives the list of raw maps, which `layout` says how to read."""

    family: str
    """Its name among `extensions.FAMILIES`."""
    nc: int
    names: tuple[str, ...]
    inputs = InputConvention()
    """How pictures are prepared for it."""
    validation = ValidationConvention()
    """What is compared with the labels when it is evaluated."""
    numbered = True
    """Layers are known by their numbers; otherwise by their names."""

    @property
    @abstractmethod
    def layers(self) -> tuple[Layer, ...]:
        """All of the network, in the order of the listing."""

    @property
    @abstractmethod
    def layout(self) -> HeadLayout: ...

    @property
    @abstractmethod
    def anchors_px(self) -> Tensor: ...

    @property
    @abstractmethod
    def graph_yaml(self) -> dict[str, Any]:
        """The model file's plain values: what a checkpoint keeps to build this network again."""

    @property
    def class_columns(self) -> Tensor | None:
        return None

    @property
    def head_config(self) -> dict[str, Any] | None:
        """Which head owns which classes, for networks with several heads."""
        return None


@dataclass(frozen=True, kw_only=True)
class ModelFamily:
    """How files and weights of a family of networks are recognised."""

    title: str
    """As people write it."""
    build: Callable[[YamlFile, int | None], Network]
    """From a model file; the number replaces its number of classes."""
    graph_of: Callable[[Mapping[str, Tensor]], dict[str, Any] | None]
    """The model file's values for weights that do not hold them; None if the weights are of another family."""
