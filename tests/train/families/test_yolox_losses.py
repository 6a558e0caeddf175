"""YOLOX's losses over a run, through a real network."""

import pytest
import torch

from yolofast import Targets, build_model
from yolofast.config.yolox_recipe import read_yolox_recipe
from yolofast.train.losses.yolox_criterion import YoloXLosses

SMALL = {"family": "yolox", "nc": 3, "depth_multiple": 0.33, "width_multiple": 0.125, "image_size": 64}


def test_l1_joins_when_mosaic_closes():
    recipe = read_yolox_recipe("yolox-s", epochs=30)
    torch.manual_seed(0)
    model = build_model(SMALL).train()
    losses = YoloXLosses(model, recipe.closes_at, faithful=True)
    targets = Targets.from_rows(torch.tensor([[0, 1, 0.5, 0.5, 0.4, 0.3], [1, 2, 0.3, 0.6, 0.2, 0.2]]), 2)
    raw = model(torch.rand(2, 3, 64, 64) * 255)
    before, after = (losses.training(epoch)(raw, targets) for epoch in (13, 14))
    assert before.l1 == 0 and after.l1 > 0
    torch.testing.assert_close(after.total - before.total, after.l1)
    assert losses.validation(14) is losses.training(29)
    assert YoloXLosses(model, None, faithful=True).training(299).use_l1 is False
    losses.load_state_dict(losses.state_dict())


@pytest.fixture
def one_thread():
    """Maps this small are not worth a second thread, which on a busy machine is waited for at every step."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_the_loss_falls_when_it_is_followed():
    """Two pictures by heart; from 11.8 it falls to 5, and to about 1 in 150 steps."""
    torch.manual_seed(0)
    model = build_model(SMALL).train()
    loss = YoloXLosses(model, None, faithful=True).training(0)
    targets = Targets.from_rows(torch.tensor([[0, 1, 0.5, 0.5, 0.4, 0.3], [1, 2, 0.3, 0.6, 0.2, 0.2]]), 2)
    images = torch.rand(2, 3, 64, 64) * 255
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    totals = []
    for _ in range(35):
        total = loss(model(images), targets).total
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        totals.append(total.item())
    assert totals[-1] < 0.6 * totals[0]
