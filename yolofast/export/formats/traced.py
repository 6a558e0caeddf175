"""ExecuTorch, LiteRT and CoreML: made of what torch traces, predictions before suppression, one size and batch.

ExecuTorch's files are run here and compared. LiteRT and CoreML are written only: their packages want other versions of
what yolofast needs, and CoreML runs on Apple's systems alone. So those files are not compared, which is said.
"""

import logging
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import torch

from yolofast.errors import UserError, in_one_line
from yolofast.export.formats.contract import DecodedNetwork, ExportFormat
from yolofast.export.formats.facts import IMAGES, PREDICTIONS, ExportFacts
from yolofast.export.formats.sidecar import write_facts
from yolofast.extensions import needed


class Traced(ExportFormat):
    folder, of_onnx, suppressions = True, False, ("none",)
    packages: tuple[str, ...]
    lacks: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("--dynamic", "--dynamic batch", "--half", "--int8", "--threshold-inputs", "--with-preprocessing"),
        "these files take images of one size and batch, prepared, and compute in fp32",
    )

    def need(self) -> None:
        with _without_warnings():
            for package in self.packages:
                needed(package, self.extra, f"the {self.title} format")

    def write(self, network: DecodedNetwork, facts: ExportFacts, path: Path) -> None:
        try:
            with _without_warnings():
                self._convert(network, torch.zeros(facts.batch, 3, *facts.shape), facts, path)
        except UserError:
            raise
        except Exception as error:  # converters' errors have no class in common but this
            what = f"the network cannot be written as {self.title}: {in_one_line(error)}"
            raise UserError(what, fix="--to onnx; another version of the converter may know the layer") from error
        write_facts(facts, path)

    @abstractmethod
    def _convert(self, network: DecodedNetwork, images: torch.Tensor, facts: ExportFacts, path: Path) -> None: ...


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Converters give dozens, about their own lines and about libraries of GPUs that are not here."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


class ExecuTorch(Traced):
    title, extra, suffix, packages = "ExecuTorch", "executorch", ".pte", ("executorch.exir",)

    def _convert(self, network: DecodedNetwork, images: torch.Tensor, facts: ExportFacts, path: Path) -> None:
        exir = needed("executorch.exir", self.extra, "the ExecuTorch format")
        xnnpack = needed("executorch.backends.xnnpack.partition.xnnpack_partitioner", self.extra, "ExecuTorch on CPUs")
        program = torch.export.export(network, (images,))
        edge = exir.to_edge_transform_and_lower(program, partitioner=[xnnpack.XnnpackPartitioner()])
        path.write_bytes(edge.to_executorch().buffer)

    def python_lines(self, name: str, taken: str) -> tuple[str, str]:
        run = f'method = Runtime.get().load_program("{name}").load_method("forward")\n'
        more = f"outputs = [one.numpy() for one in method.execute([torch.from_numpy({taken})])]\n"
        return "import torch\nfrom executorch.runtime import Runtime", run + more

    def cpp_lines(self, name: str, facts: ExportFacts) -> tuple[str, str, str]:
        headers = "#include <executorch/extension/module/module.h>\n#include <executorch/extension/tensor/tensor.h>\n"
        run = f"""executorch::extension::Module module("{name}");
auto input = executorch::extension::from_blob({IMAGES}.ptr<float>(), {{{_shape(facts)}}});
auto found = module.forward(input);
"""
        return headers, run, "found->at({place}).toTensor().const_data_ptr<{kind}>()"


class LiteRt(Traced):
    title, extra, suffix, packages = "LiteRT", "litert", ".tflite", ("litert_torch",)

    def _convert(self, network: DecodedNetwork, images: torch.Tensor, facts: ExportFacts, path: Path) -> None:
        needed("litert_torch", self.extra, "the LiteRT format").convert(network, (images,)).export(str(path))

    def python_lines(self, name: str, taken: str) -> tuple[str, str]:
        run = f"""interpreter = Interpreter(model_path="{name}")
interpreter.allocate_tensors()
interpreter.set_tensor(interpreter.get_input_details()[0]["index"], {taken})
interpreter.invoke()
outputs = [interpreter.get_tensor(one["index"]) for one in interpreter.get_output_details()]
"""
        return "from ai_edge_litert.interpreter import Interpreter", run

    def cpp_lines(self, name: str, facts: ExportFacts) -> tuple[str, str, str]:
        headers = ("interpreter", "kernels/register", "model_builder")
        run = f"""auto model = tflite::FlatBufferModel::BuildFromFile("{name}");
tflite::ops::builtin::BuiltinOpResolver known;
std::unique_ptr<tflite::Interpreter> interpreter;
tflite::InterpreterBuilder(*model, known)(&interpreter);
interpreter->AllocateTensors();
std::copy_n({IMAGES}.ptr<float>(), {IMAGES}.total(), interpreter->typed_input_tensor<float>(0));
interpreter->Invoke();
"""
        included = "".join(f"#include <tensorflow/lite/{one}.h>\n" for one in headers)
        return included, run, "interpreter->typed_output_tensor<{kind}>({place})"


class CoreMl(Traced):
    title, extra, suffix, packages = "CoreML", "coreml", ".mlpackage", ("coremltools",)

    def _convert(self, network: DecodedNetwork, images: torch.Tensor, facts: ExportFacts, path: Path) -> None:
        tools = needed("coremltools", self.extra, "the CoreML format")
        trace: Any = torch.jit.trace
        model = tools.convert(
            trace(network, (images,), check_trace=False),
            inputs=[tools.TensorType(name=IMAGES, shape=tuple(images.shape))],
            outputs=[tools.TensorType(name=PREDICTIONS)],
            convert_to="mlprogram",
            compute_precision=tools.precision.FLOAT32,
        )
        model.user_defined_metadata.update(facts.metadata())
        model.save(str(path))

    def python_lines(self, name: str, taken: str) -> tuple[str, str]:
        run = f'found = coremltools.models.MLModel("{name}").predict({{"{taken}": {taken}}})\n'
        return "import coremltools", f"{run}outputs = list(found.values())\n"

    def cpp_lines(self, name: str, facts: ExportFacts) -> tuple[str, str, str]:
        run = f"""// CoreML has no interface of C++; in Objective-C++, the input being an MLMultiArray of these images:
NSError* error = nil;
NSURL* compiled = [MLModel compileModelAtURL:[NSURL fileURLWithPath:@"{name}"] error:&error];
MLModel* model = [MLModel modelWithContentsOfURL:compiled error:&error];
auto input = [[MLDictionaryFeatureProvider alloc] initWithDictionary:@{{@"{IMAGES}": array}} error:&error];
id<MLFeatureProvider> found = [model predictionFromFeatures:input error:&error];
"""
        return "#import <CoreML/CoreML.h>\n", run, ""


def _shape(facts: ExportFacts) -> str:
    return f"{facts.batch}, 3, {facts.shape[0]}, {facts.shape[1]}"


EXECUTORCH, LITERT, COREML = ExecuTorch(), LiteRt(), CoreMl()
