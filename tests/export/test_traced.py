"""ExecuTorch, ncnn, LiteRT, CoreML and TensorRT: what is written, what is said, and the facts that lie beside."""

import json
import logging
import shutil
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
import torch

from tests.detect.seeing import picture, save_seeing
from tests.export.test_onnx_nodes import FACTS
from tests.model.small import SMALL
from yolofast import Detector, build_model
from yolofast.cli import main
from yolofast.detect.networks import read_trained
from yolofast.errors import UserError
from yolofast.export.check import compare
from yolofast.export.formats import contract
from yolofast.export.formats.sidecar import FACTS as FILE_OF_FACTS
from yolofast.export.formats.sidecar import facts_beside
from yolofast.export.formats.tensorrt import TENSORRT
from yolofast.export.formats.traced import EXECUTORCH
from yolofast.export.layers import first_difference
from yolofast.export.runtimes.contract import open_session
from yolofast.model import blocks


class Written:
    """What a converter gives: something that is saved."""

    def __init__(self):
        self.user_defined_metadata = {}

    def save(self, path):
        Path(path).mkdir()
        (Path(path) / "model").write_bytes(b"coreml")

    def export(self, path):
        Path(path).write_bytes(b"litert")


def run_readme(folder, monkeypatch, capsys):
    """What its lines of Python print."""
    cv2.imwrite(str(folder / "street.jpg"), picture(2))
    monkeypatch.chdir(folder)
    lines = (folder / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
    capsys.readouterr()
    exec(compile(lines, "README.md", "exec"), {})
    return capsys.readouterr().out


@pytest.fixture
def converters(monkeypatch):
    """Stand-ins for packages that cannot be installed beside the others."""
    seen = {}

    def convert(network, images=None, **settings):
        seen["network"], seen["settings"] = network, settings
        return Written()

    tools = SimpleNamespace(
        convert=convert,
        TensorType=lambda **fields: fields,
        precision=SimpleNamespace(FLOAT32="fp32"),
    )
    known = {"litert_torch": tools, "coremltools": tools}
    for name, module in known.items():
        monkeypatch.setitem(sys.modules, name, module)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize(("to", "model"), [("litert", "best.tflite"), ("coreml", "best.mlpackage")])
def test_what_nothing_here_runs_is_written_and_that_is_said(to, model, converters, tmp_path, capsys):
    weights, out = save_seeing(tmp_path / "best.pt", img_size=64), tmp_path / "made"
    flags = ["export", "--weights", str(weights), "--to", to, "--out", str(out)]
    assert main(flags) == 0
    said = capsys.readouterr().out
    assert "not compared with the network: nothing here runs" in said and "have suppression none" in said
    assert sorted(one.name for one in out.iterdir()) == sorted([model, FILE_OF_FACTS, "README.md", "labels.txt"])
    facts = facts_beside(out / model)
    assert facts.nms == "none" and facts.shape == (64, 64) and facts.outputs == ("predictions",)
    images = torch.zeros(1, 3, 64, 64)
    wanted = contract.DecodedNetwork(read_trained(weights).model)(images)
    torch.testing.assert_close(converters["network"](images), wanted)
    assert main(flags) == 2 and main([*flags, "--force"]) == 0, "its own folder is replaced, when asked"
    with pytest.raises(UserError, match="are written by yolofast, but not run"):
        Detector(out)


@pytest.mark.parametrize(
    ("to", "package", "extra"),
    [("litert", "litert_torch", "litert"), ("coreml", "coremltools", "coreml"), ("tensorrt", "tensorrt", "tensorrt"),
     ("executorch", "executorch.exir", "executorch")],
)  # fmt: skip
def test_the_extra_is_named(to, package, extra, monkeypatch, tmp_path, capsys):
    weights = save_seeing(tmp_path / "best.pt", img_size=64)
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["export", "--weights", str(weights), "--to", to, "--out", str(tmp_path / "made")]) == 2
    said = capsys.readouterr().err
    assert f"needs {package}, which is not installed" in said and f"pip install 'yolofast[{extra}]'" in said
    assert [one.name for one in tmp_path.iterdir()] == ["best.pt"]


@pytest.mark.parametrize("flag", ["--dynamic", "--half", "--with-preprocessing"])
def test_what_they_lack(flag, converters, tmp_path, capsys):
    weights = save_seeing(tmp_path / "best.pt", img_size=64)
    assert main(["export", "--weights", str(weights), "--to", "litert", flag]) == 2
    assert f"{flag}: these files take images of one size" in capsys.readouterr().err
    assert [one.name for one in tmp_path.iterdir()] == ["best.pt"]


def test_facts_that_are_missing_or_damaged(tmp_path):
    model = tmp_path / "best.pte"
    model.write_bytes(b"x")
    with pytest.raises(UserError, match="which says what its inputs and outputs mean"):
        facts_beside(model)
    for text, words in (("{", "is damaged"), ("[]", "was not exported by yolofast")):
        (tmp_path / FILE_OF_FACTS).write_text(text)
        with pytest.raises(UserError, match=words):
            facts_beside(model)


@pytest.mark.parametrize("batch", [0, 2])
def test_tensorrt_is_told_to_keep_the_graphs_types(batch, monkeypatch, tmp_path):
    """With a stand-in: there is no GPU here. TensorRT 10 refuses fp16 in a network whose types it may choose."""
    seen = {}
    profile = SimpleNamespace(set_shape=lambda *shapes: seen.update(shapes=shapes))
    config = SimpleNamespace(set_memory_pool_limit=lambda *_: None, add_optimization_profile=lambda one: None)
    builder = SimpleNamespace(
        create_network=lambda flags: seen.update(flags=flags), create_optimization_profile=lambda: profile,
        create_builder_config=lambda: config, build_serialized_network=lambda network, config: b"engine",
    )  # fmt: skip
    tools = SimpleNamespace(
        init_libnvinfer_plugins=lambda *_: None,
        Builder=lambda logger: builder, OnnxParser=lambda *_: SimpleNamespace(parse=lambda content: True),
        MemoryPoolType=SimpleNamespace(WORKSPACE=0), NetworkDefinitionCreationFlag=SimpleNamespace(STRONGLY_TYPED=1),
        Logger=type("Logger", (), {"ERROR": 1, "__init__": lambda self, level: None}),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "tensorrt", tools)
    graph = SimpleNamespace(SerializeToString=lambda: b"graph")
    TENSORRT.write_graph(graph, replace(FACTS, batch=batch, precision="fp16"), tmp_path / "best.engine")
    assert seen["flags"] == 1 << 1 and (tmp_path / "best.engine").read_bytes() == b"engine"
    assert seen.get("shapes", ())[1:2] == (((1, 3, 64, 96),) if not batch else ())
    assert facts_beside(tmp_path / "best.engine").precision == "fp16"


def test_what_converters_warn_of_is_not_shown(tmp_path, monkeypatch, caplog):
    def convert(network, images, facts, path):
        warnings.warn("a line of the converter is deprecated", FutureWarning, stacklevel=1)
        logging.getLogger("converter").warning("a library was not found")

    monkeypatch.setattr(EXECUTORCH, "_convert", convert)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EXECUTORCH.write(None, replace(FACTS, batch=1), tmp_path / "best.pte")
    assert not caplog.records
    logging.getLogger("converter").warning("something else")
    assert caplog.records


@pytest.mark.slow
def test_executorch_gives_what_the_network_gives(tmp_path, monkeypatch, capsys):
    pytest.importorskip("executorch.runtime", reason="the extra yolofast[executorch] is not installed")
    pytest.importorskip("torchao", reason="the extra yolofast[executorch] is not installed")
    weights, out = save_seeing(tmp_path / "best.pt", img_size=64), tmp_path / "made"
    flags = ["--weights", str(weights), "--to", "executorch", "--out", str(out), "--images", "2"]
    assert main(["export", *flags]) == 0
    assert "detections matched one to one" in capsys.readouterr().out
    ours, theirs = (Detector(one).predict(picture(7, 64, 64))[0] for one in (weights, out))
    np.testing.assert_array_equal(ours.labels, theirs.labels)
    np.testing.assert_allclose(ours.boxes, theirs.boxes, atol=1e-3)
    assert run_readme(out, monkeypatch, capsys) == "(1, 160, 8)\n"
    spoil_when(torch.compiler.is_exporting, monkeypatch)
    few = {"backbone": SMALL["backbone"][1:3], "head": [[-1, 1, "IDetect", ["nc", "anchors"]]]}
    trained = SimpleNamespace(model=build_model({**SMALL, "anchors": SMALL["anchors"][:1], **few}).eval())
    said = first_difference(trained, open_session(out / "best.pte", "executorch"), "executorch", picture(7, 64, 64))
    assert said.startswith("the first layer that differs is model.1, whose values"), said
    (out / "best.pte").write_bytes((out / "best.pte").read_bytes()[:500])
    with pytest.raises(UserError, match="is no ExecuTorch file, or is damaged"):
        Detector(out)
    assert EXECUTORCH.suffix == ".pte" and json.loads((out / FILE_OF_FACTS).read_text())["nms"] == '"none"'


def spoil_when(is_converting, monkeypatch):
    """A converter that is wrong about one kind of layer."""
    true = blocks.MP.forward
    monkeypatch.setattr(blocks.MP, "forward", lambda self, x: true(self, x) * (1.5 if is_converting() else 1))


@pytest.mark.slow
def test_the_layer_that_a_converter_spoils_is_named(tmp_path, monkeypatch, capsys):
    for package in ("ncnn", "pnnx"):
        pytest.importorskip(package, reason="the extra yolofast[ncnn] is not installed")
    weights = save_seeing(tmp_path / "best.pt", img_size=64)
    spoil_when(torch.jit.is_tracing, monkeypatch)
    modules = read_trained(weights).model.named_modules()
    (layer,) = [name for name, module in modules if isinstance(module, blocks.MP)]
    flags = ["--weights", weights, "--to", "ncnn", "--out", tmp_path / "made", "--images", 1]
    assert main(["export", *map(str, flags)]) == 2
    assert f"the first layer that differs is {layer}, whose values" in " ".join(capsys.readouterr().err.split())
    assert [one.name for one in tmp_path.iterdir()] == ["best.pt"]


@pytest.fixture(scope="module")
def ncnn_model(tmp_path_factory):
    for package in ("ncnn", "pnnx"):
        pytest.importorskip(package, reason="the extra yolofast[ncnn] is not installed")
    folder = tmp_path_factory.mktemp("ncnn")
    weights = save_seeing(folder / "best.pt", img_size=64)
    flags = ["--weights", str(weights), "--to", "ncnn", "--out", str(folder / "made"), "--images", "2"]
    assert main(["export", *flags]) == 0
    return folder


@pytest.mark.slow
def test_ncnns_maps_are_decoded_to_the_networks_boxes(ncnn_model, monkeypatch, capsys):
    ours, theirs = (Detector(ncnn_model / one).predict(picture(7, 64, 64))[0] for one in ("best.pt", "made"))
    np.testing.assert_array_equal(ours.labels, theirs.labels)
    np.testing.assert_allclose(ours.boxes, theirs.boxes, atol=1e-3)
    assert len(ours.labels) > 5
    assert run_readme(ncnn_model / "made", monkeypatch, capsys).count("(") == 2, "a map of each level"


@pytest.mark.slow
def test_an_ncnn_model_that_is_damaged_or_not_the_network(ncnn_model, tmp_path):
    made = shutil.copytree(ncnn_model / "made", tmp_path / "made")
    said = json.loads((made / FILE_OF_FACTS).read_text())
    halved = json.loads(said["raw_maps"])
    halved["anchors_px"] = (np.array(halved["anchors_px"]) * 2).tolist()
    (made / FILE_OF_FACTS).write_text(json.dumps({**said, "raw_maps": json.dumps(halved)}))
    trained = read_trained(ncnn_model / "best.pt")
    assert "boxes differ" in compare(trained, open_session(made, "ncnn"), [picture(7, 64, 64)]).fault()
    for wrong in ("{}", "[]", json.dumps({**halved, "layout": {"kind": 1}})):
        (made / FILE_OF_FACTS).write_text(json.dumps({**said, "raw_maps": wrong}))
        with pytest.raises(UserError, match="raw_maps are damaged"):
            Detector(made)
    (made / FILE_OF_FACTS).write_text(json.dumps(said))
    (made / "best.param").write_text("7767517\n1 1\nUnheardOf one 0 1 two\n")
    with pytest.raises(UserError, match="has a layer that ncnn does not know"):
        Detector(made)
    (made / "best.bin").unlink()
    with pytest.raises(UserError, match=r"its \.bin is missing"):
        Detector(made)
