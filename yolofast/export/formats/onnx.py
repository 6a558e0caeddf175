"""ONNX: one file; onnxruntime runs it (`export/runtimes/onnx_runtime.py`)."""

from pathlib import Path
from typing import Any

from yolofast.export.formats.facts import IMAGE, IMAGES, ExportFacts
from yolofast.export.formats.onnx_based import OnnxBased
from yolofast.extensions import needed


class Onnx(OnnxBased):
    title, extra, suffix, folds_weights = "ONNX", "onnx", ".onnx", True

    def need(self) -> None:
        for package in ("onnx", "onnxruntime"):
            needed(package, self.extra, "an ONNX file")

    def write_graph(self, graph: Any, facts: ExportFacts, path: Path) -> None:
        path.write_bytes(graph.SerializeToString())

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


ONNX = Onnx()
