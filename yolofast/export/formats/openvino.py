"""OpenVINO: an `.xml` with its `.bin`, made of the ONNX graph, so that suppression and preparation are the same."""

import json
import re
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

from yolofast.errors import UserError, in_one_line
from yolofast.export.formats.contract import DecodedNetwork
from yolofast.export.formats.facts import IMAGE, IMAGES, ExportFacts
from yolofast.export.formats.onnx_based import OnnxBased
from yolofast.export.formats.onnx_graph import layer_values
from yolofast.extensions import needed
from yolofast.model.contract import Network

ROOM = "yolofast"
"""Of the file's runtime information, where its facts are."""
LAYERS = "layers"
"""A fact of this format alone: the values that its layers give, since nodes keep no metadata."""


class OpenVino(OnnxBased):
    title, extra, suffix, folder = "OpenVINO", "openvino", ".xml", True
    lacks: ClassVar[Mapping[str, str]] = {
        "--nms efficientnms": "EfficientNMS_TRT runs in TensorRT only",
        "--threshold-inputs": "OpenVINO has no inputs that may be left out",
    }

    def need(self) -> None:
        for package in ("openvino", "onnx", "onnxscript"):
            needed(package, self.extra, "an OpenVINO file")

    def network(self, model: Network, facts: ExportFacts) -> DecodedNetwork:
        """In fp32: half precision is that of the stored weights, and the processor's own in computing."""
        return DecodedNetwork(model)

    def write_graph(self, graph: Any, facts: ExportFacts, path: Path) -> None:
        openvino = needed("openvino", self.extra, "an OpenVINO file")
        try:
            content = graph.SerializeToString()
            # Converting folds more, and with it away the prepared images, which sessions ask for.
            model = (
                openvino.Core().read_model(content) if facts.image_order else openvino.convert_model(BytesIO(content))
            )
        except Exception as error:  # openvino's errors have no class in common but this
            what = f"openvino {openvino.__version__} cannot convert the network: {in_one_line(error)}"
            raise UserError(what, fix="--to onnx, which OpenVINO reads too, or another --opset") from error
        known = values_of(model)
        layers = {layer: value for layer, value in layer_values(graph).items() if value in known}
        more = {} if facts.precision == "int8" else {LAYERS: json.dumps(layers)}  # room, for what nobody asks for
        for name, value in {**facts.metadata(), **more}.items():
            model.set_rt_info(value, [ROOM, name])
        openvino.save_model(model, str(path), compress_to_fp16=facts.precision == "fp16")
        path.write_text(
            re.sub(r">\s+<", "><", path.read_text(encoding="utf-8")), encoding="utf-8"
        )  # a sixth is indents

    def python_lines(self, name: str, taken: str) -> tuple[str, str]:
        exact = 'exact = {"INFERENCE_PRECISION_HINT": "f32"}  # otherwise processors that have bfloat16 round to it\n'
        run = f'found = openvino.Core().compile_model("{name}", "CPU", exact)({{"{taken}": {taken}}})\n'
        return "import openvino", f"{exact}{run}outputs = list(found.values())\n"

    def cpp_lines(self, name: str, facts: ExportFacts) -> tuple[str, str, str]:
        taken, element, shape = (
            (IMAGE, "u8", f"size_t({IMAGE}.rows), size_t({IMAGE}.cols), 3") if facts.image_order else
            (IMAGES, "f32", f"{facts.batch or 1}, 3, {facts.shape[0]}, {facts.shape[1]}")
        )  # fmt: skip
        run = f"""ov::Core core;
auto exact = ov::hint::inference_precision(ov::element::f32);  // otherwise processors that have bfloat16 round to it
auto request = core.compile_model("{name}", "CPU", exact).create_infer_request();
request.set_input_tensor(ov::Tensor(ov::element::{element}, {{{shape}}}, {taken}.data));
request.infer();
"""
        return "#include <openvino/openvino.hpp>\n", run, 'request.get_tensor("{name}").data<{kind}>()'


def values_of(model: Any) -> dict[str, Any]:
    """Outputs of nodes, by the names that they had as values of the ONNX graph."""
    nodes = [op for op in model.get_ordered_ops() if op.get_type_name() != "Result"]
    return {name: output for op in nodes for output in op.outputs() for name in output.get_names()}


OPENVINO = OpenVino()
