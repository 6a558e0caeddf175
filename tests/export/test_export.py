"""`yolofast export` to ONNX: what is in the file, that it is the network, and that it is used as weights are."""

import dataclasses
import hashlib
import shutil
import sys

import numpy as np
import pytest
import torch

from tests.detect.seeing import picture, save_seeing
from yolofast import Detector
from yolofast.cli import main
from yolofast.config.flags import from_args, parse_flags
from yolofast.config.tools import ExportConfig
from yolofast.detect.networks import read_trained
from yolofast.errors import UserError
from yolofast.evaluate.nms import Thresholds
from yolofast.export import run as flow
from yolofast.export.check import compare
from yolofast.export.formats import contract
from yolofast.export.formats.onnx import ONNX
from yolofast.export.layers import first_difference
from yolofast.export.runtimes.contract import Session
from yolofast.export.runtimes.onnx_runtime import open_onnx

onnx = pytest.importorskip("onnx", reason="the extra yolofast[onnx] is not installed")
pytestmark = pytest.mark.slow


def test_the_folder_has_all_one_needs(exported):
    model = exported / "model"
    assert sorted(file.name for file in model.iterdir()) == ["README.md", "best.onnx", "check.md", "labels.txt"]
    check = (model / "check.md").read_text()
    assert "mAP50-95 of the network, of the file" in check and "matched one to one" in check
    facts = open_onnx(model / "best.onnx").facts
    assert facts.weights_sha256 == hashlib.sha256((exported / "best.pt").read_bytes()).hexdigest()
    assert (facts.shape, facts.conf, facts.opset, facts.outputs) == ((64, 64), 0.25, 20, ("detections",))
    assert (model / "labels.txt").read_text().split() == list(facts.names) == ["cat", "dog", "cow"]
    content = (model / "best.onnx").read_bytes()
    assert b".py" not in content and b"site-packages" not in content, "nothing of the machine that made it"


def test_the_readmes_lines_find_what_the_detector_finds(exported, tmp_path, monkeypatch, capsys):
    shutil.copytree(exported / "model", tmp_path, dirs_exist_ok=True)
    shutil.copy(exported / "images" / "0.png", tmp_path / "street.jpg")
    monkeypatch.chdir(tmp_path)
    lines = (tmp_path / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
    exec(compile(lines, "README.md", "exec"), {})
    printed = np.array([line.split() for line in capsys.readouterr().out.splitlines()], float)
    found = Detector(tmp_path).predict("street.jpg")[0]
    assert len(found.scores) == len(printed) > 0
    np.testing.assert_allclose(printed[:, 1], found.scores, atol=1e-5)
    np.testing.assert_array_equal(printed[:, 0], found.labels)


def test_a_file_is_evaluated_and_detects_as_its_weights(exported, tmp_path, capsys):
    rows = []
    for weights in ("best.pt", "model/best.onnx"):
        # Without --no-rect the network would see less padding than the file, which takes one size.
        flags = ["--data", exported / "data.yaml", "--project", tmp_path, "--no-plots", "--no-rect", "--cache", "off"]
        assert main(["val", "--weights", str(exported / weights), *map(str, flags)]) == 0
        rows.append([line for line in capsys.readouterr().out.splitlines() if line.startswith("all ")])
    assert rows[0] == rows[1] and rows[0]
    square = picture(7, 64, 64)
    ours, theirs = (Detector(exported / one).predict(square)[0] for one in ("best.pt", "model"))
    assert type(ours) is type(theirs) and ours.names == theirs.names and len(ours.scores) > 5
    np.testing.assert_array_equal(ours.labels, theirs.labels)
    np.testing.assert_allclose(ours.boxes, theirs.boxes, atol=1e-3)
    with pytest.raises(UserError, match="takes images of 64×64 pixels, not 96×96"):
        Detector(exported / "model", size=96).predict(square)


def test_any_batch_sides_and_thresholds(tmp_path):
    weights, target = save_seeing(tmp_path / "best.pt", img_size=64), tmp_path / "any.onnx"
    flags = ["--weights", weights, "--out", target, "--dynamic", "--threshold-inputs", "--images", 2]
    assert main(["export", *map(str, flags)]) == 0
    session, network = open_onnx(target), contract.DecodedNetwork(read_trained(weights).model)
    images = np.random.default_rng(0).random((3, 3, 48, 96), np.float32)
    predictions = network(torch.from_numpy(images))
    for conf, iou in ((0.25, 0.45), (0.3, 0.7)):
        given = {} if conf == 0.25 else {"conf": np.float32([conf]), "iou": np.float32([iou])}
        found = session.run({"images": images, **given})["detections"]
        for one, wanted in zip(
            found, Thresholds(conf=conf, iou=iou, multi_label=False).detections(predictions), strict=True
        ):
            assert (one[:, 4] > 0).sum() == len(wanted) > 0
            np.testing.assert_allclose(one[: len(wanted), :4], wanted.boxes, atol=1e-3)
    assert len(Detector(target, size=96).predict(picture(1, 50, 90))[0].scores)


def test_a_file_that_is_not_the_network_is_told_and_where(exported, tmp_path):
    model = onnx.load(exported / "model" / "best.onnx")
    trained = read_trained(exported / "best.pt")
    images = [picture(seed, 64, 64) for seed in range(2)]
    session = open_onnx(exported / "model" / "best.onnx")
    assert compare(trained, session, images).fault() == ""
    assert first_difference(trained, session, "onnx", images[0]).startswith("no layer differs")
    convolutions = [node for node in model.graph.node if node.op_type == "Conv"]
    spoilt = convolutions[len(convolutions) // 2]
    weight = next(one for one in model.graph.initializer if one.name == spoilt.input[1])
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * 1.5, weight.name))
    onnx.save(model, tmp_path / "spoilt.onnx")
    session = open_onnx(tmp_path / "spoilt.onnx")
    assert "differ" in compare(trained, session, images).fault()
    layer = next(one.value for one in spoilt.metadata_props if one.key == "layer")
    assert first_difference(trained, session, "onnx", images[0]).startswith(f"the first layer that differs is {layer},")


class Batched(Session):
    """A file that takes any batch, and gives what it finds in an order of its own."""

    def __init__(self, session, order):
        self.facts, self._session, self._order = dataclasses.replace(session.facts, batch=0), session, order

    def predict(self, images):
        return self._order(np.concatenate([self._session.predict(one[None]) for one in images]))

    def run(self, inputs):
        found = [self._session.run({"images": one[None]})["detections"] for one in inputs["images"]]
        return {"detections": self._order(np.concatenate(found))}


def test_a_file_that_mixes_up_the_images_of_a_batch_is_told(exported):
    trained, images = read_trained(exported / "best.pt"), [picture(seed, 64, 64) for seed in range(5)]
    session = open_onnx(exported / "model" / "best.onnx")
    sound = compare(trained, Batched(session, lambda found: found), images)
    assert sound.fault() == "" and sound.images == 5 and sound.detections > 5
    assert "differ by" in compare(trained, Batched(session, lambda found: found[::-1]), images).fault()


def test_that_nothing_was_found_to_compare_suppression_with_is_said(exported):
    trained, session = read_trained(exported / "best.pt"), open_onnx(exported / "model" / "best.onnx")
    words = "so the suppression inside was not compared"
    assert words not in str(compare(trained, session, [picture(0)]).rows())
    sure = Batched(session, lambda found: found * 0)
    sure.facts = dataclasses.replace(session.facts, conf=0.999)
    sure.predict = session.predict
    found = compare(trained, sure, [picture(0)])
    assert found.fault() == "" and found.detections == 0 and words in str(found.rows())


def test_nothing_is_left_of_a_file_that_fails(tmp_path, monkeypatch, capsys):
    weights = save_seeing(tmp_path / "best.pt", img_size=64)
    monkeypatch.setattr(ONNX, "write", lambda network, facts, path: path.write_bytes(b"half"))
    assert main(["export", "--weights", str(weights)]) == 2
    said = capsys.readouterr().err
    assert "best.onnx: what was written does not run: is no ONNX file, or is damaged" in said and ".tmp" not in said
    assert [file.name for file in tmp_path.iterdir()] == ["best.pt"]


def test_a_file_that_was_not_compared_has_no_table_beside_it(exported, tmp_path, monkeypatch):
    shutil.copy(exported / "best.pt", tmp_path)
    graph = onnx.load(exported / "model" / "best.onnx")
    monkeypatch.setattr(ONNX, "write", lambda network, facts, path: onnx.save(graph, path))  # tracing takes seconds
    words = ["export", "--weights", str(tmp_path / "best.pt"), "--images", "1"]
    assert main(words) == 0
    assert sorted(one.name for one in tmp_path.iterdir()) == ["best.onnx", "best.onnx.check.md", "best.pt"]
    assert main([*words, "--no-check", "--force"]) == 0
    assert sorted(one.name for one in tmp_path.iterdir()) == ["best.onnx", "best.pt"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--weights", "best.onnx"], "is an exported file already"),
        (["--out", "there.onnx"], "there.onnx: exists\n  fix: --force replaces it"),
        (["--out", "model.engine"], "does not end in .onnx"),
        (["--opset", "9"], "--opset is 9"),
        (["--nms", "none", "--agnostic-nms"], "--agnostic-nms is about suppression, but --nms is none"),
        (["--with-preprocessing", "--dynamic"], "takes one image of any size, but --dynamic all is given"),
    ],
)
def test_refusals(flags, message, tmp_path, monkeypatch, capsys):
    save_seeing(tmp_path / "best.pt")
    for name in ("there.onnx", "best.onnx"):
        (tmp_path / name).write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    assert main(["export", "--weights", "best.pt", *flags]) == 2
    assert message in capsys.readouterr().err
    assert (tmp_path / "there.onnx").read_bytes() == b"x"


def test_files_of_others_damaged_ones_and_a_missing_extra(exported, tmp_path, monkeypatch):
    model = onnx.load(exported / "model" / "best.onnx")
    onnx.helper.set_model_props(model, {"yolofast": '"1"', "names": "[1]"})
    onnx.save(model, tmp_path / "damaged.onnx")
    del model.metadata_props[:]
    onnx.save(model, tmp_path / "foreign.onnx")
    (tmp_path / "cut.onnx").write_bytes((exported / "model" / "best.onnx").read_bytes()[:5000])
    for name, words in {
        "damaged": "metadata are damaged",
        "foreign": "not exported by yolofast",
        "cut": "no ONNX",
    }.items():
        with pytest.raises(UserError, match=words):
            Detector(tmp_path / f"{name}.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UserError, match=r"needs onnx, which is not installed\n  fix: pip install 'yolofast\[onnx\]'"):
        Detector(exported / "model")


@pytest.mark.parametrize(
    ("words", "nms", "most"),
    [
        ("--weights a.pt --grid", "none", 100),
        ("--grid --end2end --simplify --topk-all 50 --iou-thres 0.65 --img-size 640 640", "efficientnms", 50),
        ("--grid --end2end --max-wh 640 --topk-all 100", "onnx", 100),
    ],
)
def test_published_flags(words, nms, most):
    args = parse_flags(ExportConfig, ExportConfig.published(), words.split(), "export.py")
    config = from_args(ExportConfig, args)
    assert (config.suppression, config.max_det, config.force) == (nms, most, True)
    assert flow.export_format(config.to) is ONNX
