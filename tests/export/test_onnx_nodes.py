"""Suppression and preparation by ONNX operators, each as a graph of its own, against ours."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from yolofast.evaluate.nms import Thresholds
from yolofast.export.formats.facts import END2END, IMAGE, IMAGES, PREDICTIONS, ExportFacts
from yolofast.media.pictures import fit
from yolofast.structures import InputConvention, ValidationConvention

onnx = pytest.importorskip("onnx", reason="the extra yolofast[onnx] is not installed")
runtime = pytest.importorskip("onnxruntime", reason="the extra yolofast[onnx] is not installed")

from yolofast.export.formats.onnx_nodes import Nodes, add_efficient_nms, add_preparation, add_suppression  # noqa: E402

FACTS = ExportFacts(
    family="yolov7", names=("cat", "dog", "cow"), strides=(8, 16), shape=(64, 96), batch=0, any_sides=True,
    inputs=InputConvention(whole=True, size=96), validation=ValidationConvention(), nms="onnx", agnostic=False,
    conf=0.3, iou=0.5, max_det=40, threshold_inputs=False, end2end=False, image_order="", precision="fp32", opset=20,
    version="0", weights="a.pt", weights_sha256="0",
)  # fmt: skip


def run(nodes, feed, outputs):
    helper, kinds = onnx.helper, onnx.TensorProto
    kind = {"float32": kinds.FLOAT, "uint8": kinds.UINT8}
    inputs = [helper.make_tensor_value_info(n, kind[a.dtype.name], [None] * a.ndim) for n, a in feed.items()]
    values = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes.nodes, "part", inputs, values, nodes.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(list(outputs), feed)


def predictions(images, rows, classes):
    """Boxes in a few heaps, so that most overlap others of their own and of other classes."""
    random = np.random.default_rng(5)
    heaps = random.uniform(20, 80, (images, 6, 2))
    centre = heaps[np.arange(images)[:, None], random.integers(0, 6, (images, rows))]
    boxes = np.concatenate((centre + random.normal(0, 4, centre.shape), random.uniform(8, 30, centre.shape)), -1)
    scores = random.uniform(0, 1, (images, rows, 1 + classes))
    return np.concatenate((boxes, scores), -1).astype(np.float32)


@pytest.mark.parametrize(
    ("classes", "agnostic", "most", "rows"),
    [(3, False, 40, 200), (3, True, 40, 200), (1, False, 40, 200), (3, False, 5, 200), (3, False, 300, 90)],
    ids=["by class", "agnostic", "one class", "few kept", "fewer rows than detections"],
)
def test_suppression_is_ours(classes, agnostic, most, rows):
    facts = replace(FACTS, names=FACTS.names[:classes], agnostic=agnostic, max_det=most)
    given, nodes = predictions(3, rows, classes), Nodes("nms")
    add_suppression(nodes, facts)
    (found,) = run(nodes, {PREDICTIONS: given}, facts.outputs)
    assert found.shape == (3, most, 6)
    thresholds = Thresholds(conf=0.3, iou=0.5, multi_label=False, agnostic=agnostic, max_detections=most)
    sure = given[..., 4] * (given[..., 5:].max(-1) if classes > 1 else 1) > 0.3
    for one, above, wanted in zip(found, sure, thresholds.detections(torch.from_numpy(given)), strict=True):
        assert 3 < len(wanted) < above.sum(), "some are kept, some suppressed"
        assert not one[len(wanted) :].any()
        np.testing.assert_array_equal(one[: len(wanted), 5], wanted.labels)
        np.testing.assert_array_equal(one[: len(wanted), 4], wanted.scores)
        np.testing.assert_allclose(one[: len(wanted), :4], wanted.boxes, atol=1e-4)


def test_yolov7s_names_hold_the_same():
    given = predictions(2, 100, 3)
    together, apart = Nodes("nms"), Nodes("nms")
    add_suppression(together, FACTS)
    add_suppression(apart, replace(FACTS, end2end=True))
    (rows,) = run(together, {PREDICTIONS: given}, FACTS.outputs)
    count, boxes, scores, labels = run(apart, {PREDICTIONS: given}, END2END)
    np.testing.assert_array_equal(count[:, 0], (rows[..., 4] > 0).sum(1))
    np.testing.assert_array_equal(np.dstack((boxes, scores, labels)), rows)
    assert count.dtype == labels.dtype == np.int32


@pytest.mark.parametrize("size", [(48, 64), (37, 201), (300, 111), (1, 500)])
@pytest.mark.parametrize("family", ["yolov7", "yolox"])
def test_images_are_prepared_as_ours(size, family):
    inputs = FACTS.inputs if family == "yolov7" else replace(FACTS.inputs, rgb=False, divisor=1.0, top_left=True)
    facts = replace(FACTS, inputs=inputs, image_order="bgr", any_sides=False, batch=1)
    image = np.random.default_rng(1).integers(0, 255, (*size, 3), np.uint8)
    nodes = Nodes("image")
    add_preparation(nodes, facts)
    found, scale, pad = run(nodes, {IMAGE: image}, (IMAGES, "image/scale", "image/pad"))
    fitted = fit(image, facts.shape, 16, inputs)
    wanted = (fitted.input[..., ::-1] if inputs.rgb else fitted.input).transpose(2, 0, 1)[None]
    levels = found * inputs.divisor
    assert found.shape == wanted.shape
    assert np.abs(levels - wanted).max() < 1.01, "OpenCV computes with 11 bits, and rounds"
    assert np.abs(levels - wanted).mean() < 0.2
    np.testing.assert_allclose(scale, [*fitted.place.gain, *fitted.place.gain], rtol=1e-6)
    np.testing.assert_array_equal(pad, [*fitted.place.pad, *fitted.place.pad])


def test_tensorrts_plugin_has_what_it_documents():
    nodes = Nodes("nms")
    add_efficient_nms(nodes, replace(FACTS, nms="efficientnms", agnostic=True))
    node = nodes.nodes[-1]
    values = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    assert (node.op_type, tuple(node.output)) == ("EfficientNMS_TRT", END2END)
    assert values["box_coding"] == 0 and values["class_agnostic"] == 1 and values["max_output_boxes"] == 40
    assert values["score_threshold"] == pytest.approx(0.3) and values["iou_threshold"] == pytest.approx(0.5)
