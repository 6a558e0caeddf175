"""OpenVINO and TorchScript files: that they are the network, what they cannot hold, and what is no such file."""

import shutil
import signal
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.detect.seeing import picture
from tests.programs import run
from yolofast import Detector
from yolofast.cli import main
from yolofast.detect.networks import read_trained
from yolofast.errors import UserError
from yolofast.evaluate.nms import Thresholds
from yolofast.export.check import compare
from yolofast.export.formats import onnx_based, torchscript
from yolofast.export.formats.facts import END2END
from yolofast.export.formats.openvino import OPENVINO
from yolofast.export.layers import first_difference
from yolofast.export.runtimes.contract import open_session
from yolofast.model import blocks

onnx = pytest.importorskip("onnx", reason="the extra yolofast[onnx] is not installed")
pytestmark = pytest.mark.slow
FILES = {"openvino": "best.xml", "torchscript": "best.torchscript"}


@pytest.fixture(scope="module")
def made(exported, tmp_path_factory):
    """Folders of the command, by format. The ONNX graph is that of the shared export: tracing takes seconds."""
    pytest.importorskip("openvino", reason="the extra yolofast[openvino] is not installed")
    folder, graph = tmp_path_factory.mktemp("made"), onnx.load(exported / "model" / "best.onnx")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnx_based, "graph_of", lambda network, facts: graph)
        for name in FILES:
            places = ["--weights", exported / "best.pt", "--out", folder / name, "--data", exported / "data.yaml"]
            assert main(["export", "--to", name, *map(str, places)]) == 0
    return folder


@pytest.mark.parametrize("name", FILES)
def test_a_folder_detects_as_its_weights_and_so_do_the_readmes_lines(
    name, made, exported, tmp_path, monkeypatch, capsys
):
    assert "mAP50-95 of the network, of the file" in (made / name / "check.md").read_text()
    ours, theirs = (Detector(one).predict(picture(7, 64, 64))[0] for one in (exported / "best.pt", made / name))
    np.testing.assert_array_equal(ours.labels, theirs.labels)
    np.testing.assert_allclose(ours.boxes, theirs.boxes, atol=1e-3)
    assert len(ours.labels) > 5 and theirs.names == ours.names
    shutil.copytree(made / name, tmp_path, dirs_exist_ok=True)
    shutil.copy(exported / "images" / "0.png", tmp_path / "street.jpg")
    monkeypatch.chdir(tmp_path)
    lines = (tmp_path / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
    exec(compile(lines, "README.md", "exec"), {})
    printed = np.array([line.split() for line in capsys.readouterr().out.splitlines()], float)
    found = Detector(tmp_path).predict("street.jpg")[0]
    np.testing.assert_allclose(printed[:, 1], found.scores, atol=1e-5)
    np.testing.assert_array_equal(printed[:, 0], found.labels)


def test_after_openvino_ctrl_c_is_heard(made):
    """Each of its cores leaves the thread another stack for signals, which in the wrong order are freed memory."""
    code = """
import signal, sys
from yolofast.export.runtimes.contract import open_session
from yolofast.model import blocks
first, second = (open_session(sys.argv[1], "openvino") for _ in range(2))
del first
del second
signal.raise_signal(signal.SIGINT)
"""
    done = run([sys.executable, "-c", code, str(made / "openvino")])
    assert "KeyboardInterrupt" in done.stderr and done.returncode != -signal.SIGSEGV


def test_openvinos_layers_tell_where_a_file_differs(made, exported, tmp_path):
    trained, images = read_trained(exported / "best.pt"), [picture(seed, 64, 64) for seed in range(2)]
    session = open_session(made / "openvino", "openvino")
    assert first_difference(trained, session, "openvino", images[0]).startswith("no layer differs")
    graph = onnx.load(exported / "model" / "best.onnx")
    node = [node for node in graph.graph.node if node.op_type == "Conv"][5]
    weight = next(one for one in graph.graph.initializer if one.name == node.input[1])
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * 1.5, weight.name))
    OPENVINO.write_graph(graph, session.facts, tmp_path / "spoilt.xml")
    session = open_session(tmp_path / "spoilt.xml", "openvino")
    assert "differ" in compare(trained, session, images).fault()
    layer = next(one.value for one in node.metadata_props if one.key == "layer")
    assert first_difference(trained, session, "openvino", images[0]).startswith(
        f"the first layer that differs is {layer},"
    )


def test_torchscripts_layers_tell_where_tracing_went_wrong(exported, tmp_path, monkeypatch, capsys):
    true = blocks.MP.forward
    monkeypatch.setattr(blocks.MP, "forward", lambda self, x: true(self, x) * (1.5 if torch.jit.is_tracing() else 1))
    model = read_trained(exported / "best.pt").model
    (layer,) = [name for name, module in model.named_modules() if isinstance(module, blocks.MP)]
    flags = ["--weights", exported / "best.pt", "--to", "torchscript", "--out", tmp_path / "made", "--images", 1]
    assert main(["export", *map(str, flags)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "the TorchScript file is not the network: " in said
    assert f"the first layer that differs is {layer}, whose values" in said
    assert not list(tmp_path.iterdir()), "nothing is left"


def predictions(images, rows, classes):
    """Boxes in a few heaps, so that most overlap others of their own and of other classes."""
    random = np.random.default_rng(5)
    heaps = random.uniform(20, 80, (images, 6, 2))
    centre = heaps[np.arange(images)[:, None], random.integers(0, 6, (images, rows))]
    boxes = np.concatenate((centre + random.normal(0, 4, centre.shape), random.uniform(8, 30, centre.shape)), -1)
    scores = random.uniform(0, 1, (images, rows, 1 + classes))
    return torch.from_numpy(np.concatenate((boxes, scores), -1).astype(np.float32))


@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("agnostic", [False, True])
def test_torchscripts_suppression_is_ours(classes, agnostic, exported):
    facts = open_session(exported / "model", "onnx").facts
    facts = replace(facts, names=facts.names[:classes], agnostic=agnostic, max_det=20, conf=0.3, iou=0.5)
    given = predictions(3, 150, classes)
    rows = torch.jit.script(torchscript._Suppressed(torch.nn.Identity(), facts))(given)
    parts = torchscript._End2End(torch.nn.Identity(), facts)(given)
    thresholds = Thresholds(conf=0.3, iou=0.5, multi_label=False, agnostic=agnostic, max_detections=20)
    for one, count, wanted in zip(rows.numpy(), parts[0], thresholds.detections(given), strict=True):
        assert 3 < len(wanted) == int(count) and not one[len(wanted) :].any()
        np.testing.assert_array_equal(one[: len(wanted), 5], wanted.labels)
        np.testing.assert_allclose(one[: len(wanted), :4], wanted.boxes, atol=1e-4)
    assert len(parts) == len(END2END) and parts[3].dtype == torch.int32


def test_no_such_files(made, tmp_path):
    for name, file in FILES.items():
        (tmp_path / file).write_bytes((made / name / file).read_bytes()[:3000])
    (tmp_path / "best.bin").write_bytes(b"")
    torch.jit.save(torch.jit.script(torch.nn.Identity()), str(tmp_path / "foreign.torchscript"))
    shutil.copy(made / "openvino" / "best.xml", tmp_path / "alone.xml")
    text = (made / "openvino" / "best.xml").read_text()
    (tmp_path / "foreign.xml").write_text(text.replace("<yolofast>", "<other>").replace("</yolofast>", "</other>"))
    shutil.copy(made / "openvino" / "best.bin", tmp_path / "foreign.bin")
    for file, words in {
        "best.xml": "is no OpenVINO model, or is damaged",
        "best.torchscript": "is no TorchScript file, or is damaged",
        "foreign.torchscript": "was not exported by yolofast",
        "foreign.xml": "was not exported by yolofast",
        "alone.xml": "its .bin is missing",
    }.items():
        with pytest.raises(UserError, match=words):
            Detector(tmp_path / file)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--to openvino --nms efficientnms", "--nms efficientnms: EfficientNMS_TRT runs in TensorRT only"),
        ("--to openvino --threshold-inputs", "--threshold-inputs: OpenVINO has no inputs that may be left out"),
        ("--to torchscript --with-preprocessing", "--with-preprocessing: TorchScript files take prepared images"),
    ],
)
def test_what_a_format_cannot_hold(flags, message, exported, tmp_path, capsys):
    pytest.importorskip("openvino", reason="the extra yolofast[openvino] is not installed")
    place = ["--weights", str(exported / "best.pt"), "--out", str(tmp_path / "model")]
    assert main(["export", *place, *flags.split()]) == 2
    assert message in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_the_extra_is_named(exported, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(UserError, match=r"needs openvino, which is not installed\n  fix: pip install 'yolofast\[open"):
        OPENVINO.need()
