from itertools import chain

import torch

from yolofast.optim.sgd import Sgd


def test_is_torchs_sgd_with_changing_settings():
    generator = torch.Generator().manual_seed(0)
    shapes = [[(3, 4), (5,)], [(2, 2, 3, 3)], [(7,)]]
    decays = [0.0, 0.01, 0.0]
    ours, theirs = (
        [
            [torch.nn.Parameter(torch.randn(s, generator=torch.Generator().manual_seed(7))) for s in group]
            for group in shapes
        ]
        for _ in range(2)
    )
    sgd = Sgd([{"params": p, "weight_decay": d} for p, d in zip(ours, decays, strict=True)])
    reference = torch.optim.SGD(
        [{"params": p, "weight_decay": d} for p, d in zip(theirs, decays, strict=True)],
        lr=0.1,
        momentum=0.9,
        nesterov=True,
    )
    for step in range(10):
        lr, momentum = (0.01 * step, 0.02 * step, 0.1), 0.8 + 0.01 * step
        for a, b in zip(chain(*ours), chain(*theirs), strict=True):
            a.grad = torch.randn(a.shape, generator=generator)
            b.grad = a.grad.clone()
        for group, value in zip(reference.param_groups, lr, strict=True):
            group["lr"], group["momentum"] = value, momentum
        reference.step()
        sgd.set(lr, momentum)
        sgd.step()
        for a, b in zip(chain(*ours), chain(*theirs), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_continues_from_its_state():
    def run(steps, state=None, start=None):
        parameter = torch.nn.Parameter(torch.ones(3) if start is None else start.clone())
        sgd = Sgd([{"params": [parameter], "weight_decay": 0.1}])
        if state is not None:
            sgd.load_state_dict(state)
        sgd.set([0.1], 0.9)
        for _ in range(steps):
            parameter.grad = parameter.detach() * 2
            sgd.step()
        return parameter.detach(), sgd.state_dict()

    whole, _ = run(6)
    half, state = run(3)
    resumed, _ = run(3, state, half)
    assert torch.equal(whole, resumed)
