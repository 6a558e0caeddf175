"""Formats that are made of the ONNX graph: suppression, preparation and int8 are those of the graph."""

from abc import abstractmethod
from pathlib import Path
from typing import Any

from yolofast.export.formats.contract import DecodedNetwork, ExportFormat
from yolofast.export.formats.facts import ExportFacts
from yolofast.export.formats.onnx_graph import graph_of


class OnnxBased(ExportFormat):
    folds_weights = False
    """Its runtime is faster if int8 weights of layers in fp32 are unpacked when the file is opened."""

    def write(self, network: DecodedNetwork, facts: ExportFacts, path: Path) -> None:
        self.write_graph(graph_of(network, facts), facts, path)

    @abstractmethod
    def write_graph(self, graph: Any, facts: ExportFacts, path: Path) -> None:
        """`graph` is one of these facts, in fp32, fp16 or int8."""
