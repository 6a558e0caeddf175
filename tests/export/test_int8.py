"""Int8: what is stored, what rounding costs, and the search for layers that bear it."""

from dataclasses import replace

import numpy as np
import pytest

from yolofast.cli import main
from yolofast.errors import UserError
from yolofast.export import run as flow
from yolofast.export.check import INT8, ExportComparison
from yolofast.export.formats.facts import IMAGES, PREDICTIONS
from yolofast.export.int8 import Candidate, Int8, LabelledSample, best_range, find_int8, harm_of, missed_words

onnx = pytest.importorskip("onnx", reason="the extra yolofast[onnx] is not installed")
pytest.importorskip("onnxruntime", reason="the extra yolofast[onnx] is not installed")

from yolofast.export.formats.onnx_graph import part_of  # noqa: E402
from yolofast.export.formats.onnx_int8 import SWITCHES, InputRange, as_rounded, convolutions, with_int8  # noqa: E402
from yolofast.export.runtimes.onnx_runtime import started  # noqa: E402


def network(groups=1, seed=0):
    """Two convolutions one after the other, the first of which is quiet in some channels."""
    random, helper, floats = np.random.default_rng(seed), onnx.helper, onnx.TensorProto.FLOAT
    shapes = {"w1": (8, 4 // groups, 3, 3), "b1": (8,), "w2": (6, 8, 1, 1), "b2": (6,)}
    constants = {name: random.normal(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    constants["w1"][::2] *= 0.01
    nodes = [
        helper.make_node("Conv", [IMAGES, "w1", "b1"], ["one"], group=groups, pads=[1] * 4),
        helper.make_node("Relu", ["one"], ["active"]),
        helper.make_node("Conv", ["active", "w2", "b2"], [PREDICTIONS]),
    ]
    graph = helper.make_graph(
        nodes, "two", [helper.make_tensor_value_info(IMAGES, floats, [1, 4, 8, 8])],
        [helper.make_tensor_value_info(PREDICTIONS, floats, [1, 6, 8, 8])],
        [onnx.numpy_helper.from_array(values, name) for name, values in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def seen_of(model, images):
    layers = [one.taken for one in convolutions(model)]
    found = {IMAGES: images}
    session = started(part_of(model, [IMAGES], ["active"]))
    found["active"] = session.run(None, {IMAGES: images})[0]
    seen = {}
    for value in layers:
        numbers = found[value]
        low, high = best_range(numbers, numbers.min(), numbers.max())
        seen[value] = InputRange(low, high, numbers[0].mean((1, 2)), as_rounded(numbers[0], low, high).mean((1, 2)))
    return seen


def outputs(model, images, **more):
    return started(model).run([PREDICTIONS], {IMAGES: images, **more})[0]


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("folded", [False, True])
def test_eight_bits_are_nearly_the_same_and_less_moved_on_average(groups, folded):
    model, images = network(groups), np.random.default_rng(1).normal(0, 1, (1, 4, 8, 8)).astype(np.float32)
    seen, layers = seen_of(model, images), convolutions(model)
    assert [one.depthwise for one in layers] == [groups == 4, False]
    wanted = outputs(model, images)
    for chosen in ([], [layers[1].value], [one.value for one in layers]):
        small = with_int8(model, chosen, seen, folded=folded)
        onnx.checker.check_model(small)
        stored = {one.name: one.data_type for one in small.graph.initializer}
        assert stored["w0q"] == stored["w1q"] == onnx.TensorProto.INT8 and not {"w1", "w2"} & stored.keys()
        kinds = [node.op_type for node in small.graph.node]
        assert kinds.count("QuantizeLinear") == len(chosen)
        assert kinds.count("Cast") == (2 - len(chosen) if folded else 0)
        found = outputs(small, images)
        assert 0 < np.abs(found - wanted).max() < 0.03 * np.abs(wanted).max()
        biased = outputs(with_int8(model, chosen, {name: replace(one, means=one.means * 0, rounded_means=one.means * 0)
                                                   for name, one in seen.items()}, folded=folded), images)  # fmt: skip
        shift, uncorrected = (np.abs((one - wanted).mean((0, 2, 3))).sum() for one in (found, biased))
        assert shift < uncorrected or not chosen


def test_a_switch_is_one_layers_rounding():
    model, images = network(), np.random.default_rng(1).normal(0, 1, (1, 4, 8, 8)).astype(np.float32)
    seen, layers = seen_of(model, images), [one.value for one in convolutions(model)]
    switched = with_int8(model, layers, seen, switched=True)
    ways = ([False, False], [True, False], [True, True])
    off, one, both = (outputs(switched, images, **{SWITCHES: np.array(way)}) for way in ways)
    assert not np.array_equal(off, one) and not np.array_equal(one, both)
    np.testing.assert_allclose(off, outputs(with_int8(model, [], seen, folded=True), images), atol=1e-5)


def test_a_range_is_shrunk_where_outliers_cost_more_than_they_say():
    values = np.random.default_rng(0).normal(0, 1, 20_000).astype(np.float32)
    low, high = best_range(values, values.min(), 400.0)
    assert high < 100 and low <= values.min() * 0.2
    assert best_range(values, -4.0, 4.0)[1] > 3
    assert best_range(np.abs(values), 0.0, 4.0)[0] == 0 and best_range(np.zeros(9, np.float32), 0.0, 0.0)[1] > 0
    rounded = as_rounded(values, low, high)
    assert len(np.unique(rounded)) <= 256 and as_rounded(np.zeros(1), low, high)[0] == 0


def test_harm_counts_boxes_and_scores():
    ours = np.array([[50, 50, 20, 20, 0.9, 1.0], [90, 90, 20, 20, 0.1, 1.0]], np.float32)
    moved, faded = ours.copy(), ours.copy()
    moved[0, 0] += 10
    faded[0, 4] = 0.4
    assert harm_of(ours, ours) == 0
    assert harm_of(ours, moved) == pytest.approx(0.9 * (1 - 200 / 600), abs=1e-3)
    assert harm_of(ours, faded) == pytest.approx(0.5, abs=1e-3)


def test_targets_that_are_missed_are_said():
    fp32, good = Candidate("fp32", frozenset(), 0.30, 20.0, 1000), Candidate("a", frozenset("x"), 0.295, 15.0, 290)
    found = Int8(None, 9, fp32, (good,), good)
    assert missed_words(found) == "" and ("ms a picture, of fp32", "15.0 of 20.0 (1.33×)", "faster") in found.rows()
    bad = Candidate("b", frozenset(), 0.28, 21.0, 400)
    words = missed_words(Int8(None, 9, fp32, (good, bad), bad))
    assert "2.00 points of AP are lost" in words and "40.0% of the bytes" in words and "fp32 20.0 ms" in words
    assert "mAP50-95 is 0.2800" in ExportComparison(INT8, ap=(0.3, 0.28)).fault()
    assert ExportComparison(INT8, ap=(0.3, 0.33)).fault() == ""


@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "openvino"])
def test_the_command_keeps_ap_and_says_what_it_found(to, exported, tmp_path, monkeypatch, capsys):
    if to == "openvino":
        pytest.importorskip("openvino", reason="the extra yolofast[openvino] is not installed")
    graph = onnx.load(exported / "model" / "best.onnx")

    def known(network, facts):  # tracing takes seconds
        onnx.helper.set_model_props(graph, facts.metadata())
        return graph

    monkeypatch.setattr(flow, "graph_of", known)
    data = exported / "data.yaml"
    places = ["--weights", exported / "best.pt", "--out", tmp_path / "small", "--data", data]
    assert main(["export", "--to", to, "--int8", *map(str, places)]) == 0
    shown = capsys.readouterr().out
    assert "convolutions with int8 inputs" in shown and "int8" in (tmp_path / "small" / "check.md").read_text()
    model = next(one for one in (tmp_path / "small").iterdir() if one.suffix in (".onnx", ".bin"))
    before = sum(len(one.raw_data) for one in graph.graph.initializer)
    if to == "onnx":
        kinds = {one.data_type for one in onnx.load(model).graph.initializer}
        assert onnx.TensorProto.INT8 in kinds
    else:
        assert model.stat().st_size < before / 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--int8", "--int8 measures on labelled train images, but no data set is given"),
        ("--int8 --half --data data.yaml", "--int8 and --half are both given"),
    ],
)
def test_refusals(flags, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["export", "--weights", "best.pt", *flags.split()]) == 2
    assert message in capsys.readouterr().err


def test_few_images_are_refused():
    with pytest.raises(UserError, match="at least 2 labelled train images"):
        find_int8("onnx", None, None, None, None, LabelledSample([], None))
