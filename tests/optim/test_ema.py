import math

import torch
from torch import nn

from tests.optim.waits import NeverWaits
from yolofast.optim.optimizer import ModelEma, NotAveraged


def small_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))


def test_follows_the_published_formula():
    model = small_model()
    ema = ModelEma(model)
    expected = {name: value.double() for name, value in model.state_dict().items() if value.is_floating_point()}
    for n in range(1, 6):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += torch.randn_like(parameter)
        model(torch.rand(2, 3, 4, 4))  # moves the statistics, and the count of batches
        ema.update()
        decay = 0.9999 * (1 - math.exp(-n / 2000))
        for name, value in model.state_dict().items():
            if name in expected:
                expected[name] = expected[name] * decay + value.double() * (1 - decay)
    average = ema.model.state_dict()
    for name, value in expected.items():
        torch.testing.assert_close(average[name].double(), value, rtol=1e-6, atol=1e-6)
    assert average["1.num_batches_tracked"] == 5
    assert not ema.model.training


def test_continues_from_its_state():
    model = small_model()
    ema, other = ModelEma(model), ModelEma(small_model())
    for _ in range(3):
        ema.update()
    other.load_state_dict(ema.state_dict())
    with torch.no_grad():
        model[0].weight.mul_(2)
    ema.update()
    # The other average follows a model of its own: give it the same weights.
    fresh = small_model()
    with torch.no_grad():
        fresh[0].weight.mul_(2)
    resumed = ModelEma(fresh)
    resumed.load_state_dict(other.state_dict())
    resumed.update()
    for a, b in zip(ema.model.state_dict().values(), resumed.model.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_without_an_average_the_model_is_its_own():
    model = small_model().train()
    none = NotAveraged(model)
    before = [p.clone() for p in model.parameters()]
    none.update()
    assert none.model is model and none.updates == 1 and model.training
    assert all(torch.equal(a, b) and a.requires_grad for a, b in zip(model.parameters(), before, strict=True))


def test_decay_and_ramp_fit_the_run():
    model, decay, ramp = small_model(), 0.99, 20
    ema = ModelEma(model, decay, ramp)
    expected = model[0].weight.double()
    for n in range(1, 4):
        with torch.no_grad():
            model[0].weight += 1
        ema.update()
        share = decay * (1 - math.exp(-n / ramp))
        expected = expected * share + model[0].weight.double() * (1 - share)
    torch.testing.assert_close(ema.model[0].weight.double(), expected, rtol=1e-6, atol=1e-6)


def test_late_weights_count_alike():
    """Two epochs of three updates, of which the second is averaged; then the run is resumed in a third."""
    model = small_model()
    ema, late = ModelEma(model, mean_from=1), []
    for epoch in range(3):
        ema.start_epoch(epoch)
        for _ in range(3):
            with torch.no_grad():
                model[0].weight += torch.randn_like(model[0].weight)
            with NeverWaits():
                ema.update()
            late += [model[0].weight.detach().double()] if epoch else []
            if late:
                torch.testing.assert_close(ema.model[0].weight.double(), sum(late) / len(late), rtol=1e-5, atol=1e-5)
    assert len(late) == 6 and ema.before_mean == 3


def test_a_mean_that_comes_later_is_given_up_until_then():
    """A resumed run with more epochs is before its last ones again."""
    ema = ModelEma(small_model(), mean_from=4)
    ema.before_mean.fill_(10)
    ema.start_epoch(3)
    assert ema.before_mean == math.inf
