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

    def cpp_lines(self, name: str, facts: ExportFacts) -> tuple[str, str, str]:
        taken, kind, count, shape = (
            (IMAGE, "uint8_t", f"3 * {IMAGE}.total()", f"{IMAGE}.rows, {IMAGE}.cols, 3") if facts.image_order else
            (IMAGES, "float", f"{IMAGES}.total()", f"{facts.batch or 1}, 3, {facts.shape[0]}, {facts.shape[1]}")
        )  # fmt: skip
        given = ", ".join(f'"{one}"' for one in facts.outputs)
        run = f"""Ort::Env env;
Ort::Session session(env, "{name}", Ort::SessionOptions{{}});
std::vector<int64_t> shape{{{shape}}};
auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
auto input = Ort::Value::CreateTensor<{kind}>(memory, {taken}.ptr<{kind}>(), {count}, shape.data(), shape.size());
const char *inputs[] = {{"{taken}"}}, *outputs[] = {{{given}}};
auto found = session.Run(Ort::RunOptions{{}}, inputs, &input, 1, outputs, {len(facts.outputs)});
"""
        return "#include <onnxruntime_cxx_api.h>\n", run, "found[{place}].GetTensorData<{kind}>()"


ONNX = Onnx()
