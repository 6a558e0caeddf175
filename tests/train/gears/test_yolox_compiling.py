"""From images to losses YOLOX is one graph, with nothing asked of the host; and its inference can be exported."""

import pytest
import torch

from yolofast import build_model, fuse
from yolofast.optim.optimizer import NotAveraged, parameter_groups
from yolofast.optim.sgd import Sgd
from yolofast.precision import Precision
from yolofast.structures import Batch, Targets
from yolofast.train.gears.compiling import compile_report
from yolofast.train.losses.yolox_criterion import YoloXLosses
from yolofast.train.step import RunningLosses, TrainStep

SMALL = {"family": "yolox", "nc": 3, "depth_multiple": 0.33, "width_multiple": 0.125, "image_size": 64}
ROWS = torch.tensor([[0, 1, 0.5, 0.5, 0.4, 0.3], [1, 2, 0.3, 0.6, 0.2, 0.2]])


@pytest.mark.slow
def test_one_graph():
    """With L1, without which there is only less of it."""
    model = build_model(SMALL).train()
    criterion = YoloXLosses(model, 0, faithful=False).training(0)
    optimizer = Sgd(parameter_groups(model, 5e-4))
    step = TrainStep(model, criterion, optimizer, NotAveraged(model), Precision.choose("fp32", "cpu"))
    batch = Batch(torch.randint(0, 256, (2, 3, 64, 96), dtype=torch.uint8), Targets.from_rows(ROWS, 2), None)
    assert "graphs: 1, breaks: 0" in compile_report(step, batch)


@pytest.mark.slow
def test_inference_can_be_exported():
    model = fuse(build_model(SMALL).eval())
    images = torch.rand(1, 3, 64, 96) * 255
    exported = torch.export.export(model, (images,)).module()
    for ours, theirs in zip(exported(images), model(images), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_total_is_recorded_as_it_is():
    """YOLOv7 multiplies its total by the batch, which the record divides by; YOLOX does not."""
    model = build_model(SMALL).train()
    losses, criterion = (
        RunningLosses(torch.device("cpu"), ("box", "obj", "cls", "l1")),
        YoloXLosses(model, None, faithful=False).training(0),
    )
    terms = criterion(model(torch.rand(2, 3, 64, 64)), Targets.from_rows(ROWS, 2))
    losses.add(terms, 2)
    means = losses.means()
    assert means["total"] == pytest.approx(terms.total.item(), rel=1e-6)
    assert means["total"] == pytest.approx(means["box"] + means["obj"] + means["cls"], rel=1e-5)
