"""ONNX: one file; onnxruntime runs it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from yolofast.errors import UserError, in_one_line
from yolofast.export.formats.contract import Array, DecodedNetwork, ExportFormat, Session, needed
from yolofast.export.formats.facts import IMAGE, IMAGES, PREDICTIONS, ExportFacts, facts_of
from yolofast.export.formats.onnx_graph import LAYER, graph_of, part_of

_LARGEST = 2**31
"""Bytes: what a file of this format can be."""


class Onnx(ExportFormat):
    title, extra, suffix = "ONNX", "onnx", ".onnx"

    def need(self) -> None:
        for package in ("onnx", "onnxruntime"):
            needed(package, self.extra, "an ONNX file")

    def write(self, network: DecodedNetwork, facts: ExportFacts, path: Path) -> None:
        path.write_bytes(graph_of(network, facts).SerializeToString())

    def python_lines(self, name: str, taken: str) -> tuple[str, str]:
        run = f'outputs = onnxruntime.InferenceSession("{name}").run(None, {{"{taken}": {taken}}})\n'
        return "import onnxruntime\n", run

    def cpp_lines(self, name: str, facts: ExportFacts) -> str:
        taken, kind = (IMAGE, "uint8_t") if facts.image_order else (IMAGES, "float")
        shape = (
            "height, width, 3" if facts.image_order else f"{facts.batch or 1}, 3, {facts.shape[0]}, {facts.shape[1]}"
        )
        given = ", ".join(f'"{one}"' for one in facts.outputs)
        return f"""#include <onnxruntime_cxx_api.h>

Ort::Env env;
Ort::Session session(env, "{name}", Ort::SessionOptions{{}});
std::vector<int64_t> shape{{{shape}}};
std::vector<{kind}> pixels = prepared();  // as the input above
auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
auto input = Ort::Value::CreateTensor<{kind}>(memory, pixels.data(), pixels.size(), shape.data(), shape.size());
const char* inputs[] = {{"{taken}"}};
const char* outputs[] = {{{given}}};
auto found = session.Run(Ort::RunOptions{{}}, inputs, &input, 1, outputs, {len(facts.outputs)});
"""

    def open(self, path: Path, *, gpu: bool = False) -> "OnnxSession":
        return OnnxSession(path, gpu=gpu)


class OnnxSession(Session):
    def __init__(self, path: Path, *, gpu: bool = False) -> None:
        self._model, self._path, self._gpu = _read(path), path, gpu
        self.facts = facts_of({one.key: one.value for one in self._model.metadata_props}, path)
        self._network = self._started(part_of(self._model, [IMAGES], [PREDICTIONS]))
        self._whole: Any = None

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        if self._whole is None:
            self._whole = self._started(self._model)
        outputs = self._whole.run(None, dict(inputs))
        return dict(zip((one.name for one in self._whole.get_outputs()), outputs, strict=True))

    def predict(self, images: Array) -> Array:
        (predictions,) = self._network.run([PREDICTIONS], {IMAGES: np.ascontiguousarray(images)})
        found: Array = predictions
        wanted = 5 + len(self.facts.names)
        if found.ndim != 3 or found.shape[2] != wanted:
            what = f"its predictions have shape {list(found.shape)}, but [batch, n, {wanted}] belongs to its classes"
            raise UserError(what, where=self._path, fix="export it again: it is damaged")
        return found

    def layers(self, images: Array) -> Sequence[tuple[str, Array]]:
        last: dict[str, str] = {}
        for node in self._model.graph.node:
            layer = next((one.value for one in node.metadata_props if one.key == LAYER), "")
            while layer:  # the last node of a layer is the last of what it is part of
                last.pop(layer, None)
                last[layer] = node.output[0]
                layer = layer.rpartition(".")[0]
        values = list(dict.fromkeys(last.values()))
        session = self._started(part_of(self._model, [IMAGES], values))
        found = dict(zip(values, session.run(values, {IMAGES: np.ascontiguousarray(images)}), strict=True))
        return [(layer, found[value]) for layer, value in last.items()]

    def _started(self, model: Any) -> Any:
        runtime = needed("onnxruntime", "onnx", "an ONNX file")
        options = runtime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = torch.get_num_threads(), 1
        options.log_severity_level = 3
        cuda = "CUDAExecutionProvider"
        providers = [cuda] if self._gpu and cuda in runtime.get_available_providers() else []
        try:
            return runtime.InferenceSession(
                model.SerializeToString(), options, providers=[*providers, "CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's errors have no class in common but this
            what = f"onnxruntime {runtime.__version__} cannot run it: {in_one_line(error)}"
            raise UserError(what, where=self._path, fix="export it again, with another --opset") from error


def _read(path: Path) -> Any:
    onnx = needed("onnx", "onnx", "an ONNX file")
    if path.stat().st_size >= _LARGEST:
        raise UserError("is larger than 2 GiB, which no ONNX file is", where=path, fix="check the path")
    try:
        model = onnx.load_model_from_string(path.read_bytes())
    except Exception as error:  # protobuf's error is not a public class
        raise UserError("is no ONNX file, or is damaged", where=path, fix="export it again") from error
    if not model.graph.node:
        raise UserError("is no ONNX file, or is damaged", where=path, fix="export it again")
    return model


ONNX = Onnx()
