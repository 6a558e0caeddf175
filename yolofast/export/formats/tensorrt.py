"""TensorRT: an engine for one kind of GPU, built of the ONNX graph where that GPU is.

Needs NVIDIA's `tensorrt` and a GPU; it has not been tried on one. What its parser is given is compared by `--to onnx`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from yolofast.errors import UserError
from yolofast.export.formats.facts import IMAGES, ExportFacts
from yolofast.export.formats.onnx_based import OnnxBased
from yolofast.export.formats.sidecar import write_facts
from yolofast.extensions import needed

_WORKSPACE = 1 << 32
"""Bytes that TensorRT may use while it tries kernels."""
MOST_IMAGES = 32
"""Of a batch, if the batch is open."""


class TensorRt(OnnxBased):
    title, extra, suffix, folder = "TensorRT", "tensorrt", ".engine", True
    suppressions = ("efficientnms", "none", "onnx")
    lacks: ClassVar[Mapping[str, str]] = {
        "--int8": "int8 is for onnx and openvino",
        "--dynamic": "an engine is fast for the size it was built for",
        "--with-preprocessing": "an engine takes prepared images of its size",
        "--threshold-inputs": "an engine has its thresholds as constants",
    }

    def need(self) -> None:
        for package in ("tensorrt", "onnx", "onnxscript"):
            needed(package, self.extra, "a TensorRT engine")

    def write_graph(self, graph: Any, facts: ExportFacts, path: Path) -> None:
        trt = needed("tensorrt", self.extra, "a TensorRT engine")
        logger = trt.Logger(trt.Logger.ERROR)
        trt.init_libnvinfer_plugins(logger, "")
        builder = trt.Builder(logger)
        if builder is None:
            raise UserError("TensorRT finds no GPU", fix="build the engine where it will run, or --to onnx")
        # Numbers have the types that the graph gives them. TensorRT 10 wants to be told, later ones know nothing else.
        network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        parser = trt.OnnxParser(network, logger)
        if not parser.parse(graph.SerializeToString()):
            faults = "; ".join(str(parser.get_error(number)) for number in range(parser.num_errors))
            raise UserError(f"TensorRT {trt.__version__} cannot read the network: {faults}", fix="another --opset")
        config = builder.create_builder_config()
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, _WORKSPACE)
        if not facts.batch:
            profile, (height, width) = builder.create_optimization_profile(), facts.shape
            profile.set_shape(IMAGES, *((count, 3, height, width) for count in (1, 8, MOST_IMAGES)))
            config.add_optimization_profile(profile)
        engine = builder.build_serialized_network(network, config)
        if engine is None:
            raise UserError(
                f"TensorRT {trt.__version__} could not build an engine", fix="another --opset, or --to onnx"
            )
        path.write_bytes(engine)
        write_facts(facts, path)

    def python_lines(self, name: str, taken: str) -> tuple[str, str]:
        run = f"""engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(open("{name}", "rb").read())
context = engine.create_execution_context()
given = torch.from_numpy({taken}).cuda()
context.set_input_shape("{taken}", tuple(given.shape))
context.set_tensor_address("{taken}", given.data_ptr())
outputs, kinds = [], {{trt.float32: torch.float32, trt.int32: torch.int32}}
for value in map(engine.get_tensor_name, range(1, engine.num_io_tensors)):
    kind = kinds[engine.get_tensor_dtype(value)]
    outputs.append(torch.empty(tuple(context.get_tensor_shape(value)), dtype=kind, device="cuda"))
    context.set_tensor_address(value, outputs[-1].data_ptr())
context.execute_async_v3(torch.cuda.current_stream().cuda_stream)
outputs = [one.cpu().numpy() for one in outputs]
"""
        return "import tensorrt as trt\nimport torch", run

    def cpp_lines(self, name: str, facts: ExportFacts) -> tuple[str, str, str]:
        height, width = facts.shape
        run = f"""std::unique_ptr<nvinfer1::IRuntime> runtime(nvinfer1::createInferRuntime(logger));
auto engine = runtime->deserializeCudaEngine(content.data(), content.size());  // content of {name}
auto context = engine->createExecutionContext();
context->setInputShape("{IMAGES}", nvinfer1::Dims4({facts.batch or 1}, 3, {height}, {width}));
context->setTensorAddress("{IMAGES}", images_on_the_gpu);  // by cudaMemcpy
context->setTensorAddress("{facts.outputs[0]}", found_on_the_gpu);  // and so for each output
context->enqueueV3(stream);
"""
        return "#include <NvInfer.h>\n", run, ""


TENSORRT = TensorRt()
