from itertools import chain

import pytest
import torch

from yolofast.optim.optimizer import build_optimizer

SHAPES, DECAYS = [[(3, 4), (5,)], [(2, 2, 3, 3)], [(7,)], []], [0.0, 0.01, 0.0, 0.1]


def parameters():
    generator = torch.Generator().manual_seed(7)
    return [[torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in group] for group in SHAPES]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)])
def test_is_torchs_with_changing_settings(name, kind):
    generator = torch.Generator().manual_seed(0)
    ours, theirs = parameters(), parameters()
    optimizer = build_optimizer(name, [{"params": p, "weight_decay": d} for p, d in zip(ours, DECAYS, strict=True)])
    reference = kind([{"params": p, "weight_decay": d} for p, d in zip(theirs, DECAYS, strict=True)], lr=0.1)
    for step in range(12):
        lr, momentum = (0.001 * step, 0.002 * step, 0.01, 0.1), 0.8 + 0.01 * step
        for a, b in zip(chain(*ours), chain(*theirs), strict=True):
            a.grad = torch.randn(a.shape, generator=generator) * 10 ** (step % 4 - 2)
            b.grad = a.grad.clone()
        for group, value in zip(reference.param_groups, lr, strict=True):
            group["lr"], group["betas"] = value, (momentum, 0.999)
        reference.step()
        optimizer.set(lr, momentum)
        optimizer.step()
        for a, b in zip(chain(*ours), chain(*theirs), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_continues_from_its_state(name):
    def run(steps, state=None, start=None):
        parameter = torch.nn.Parameter(torch.ones(3) if start is None else start.clone())
        optimizer = build_optimizer(name, [{"params": [parameter], "weight_decay": 0.1}])
        if state is not None:
            optimizer.load_state_dict(state)
        optimizer.set([0.1], 0.9)
        for _ in range(steps):
            parameter.grad = parameter.detach() * torch.tensor([1.0, 20.0, 0.3])
            optimizer.step()
        return parameter.detach(), optimizer

    whole, at_end = run(6)
    half, first = run(3)
    resumed, second = run(3, first.state_dict(), half)
    assert torch.equal(whole, resumed)
    for a, b in zip(at_end.tensors(), second.tensors(), strict=True):
        assert torch.equal(a, b)


def test_a_state_of_before_there_were_plans_has_one_count_for_all():
    optimizer = build_optimizer("adam", [{"params": p, "weight_decay": 0.0} for p in parameters()])
    state = optimizer.state_dict()
    optimizer.load_state_dict({**state, "steps": torch.tensor(7.0, dtype=torch.float64)})
    assert [float(count) for count in optimizer.state_dict()["steps"]] == [7.0] * len(SHAPES)
