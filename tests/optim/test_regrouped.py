"""Grouped anew, an optimizer continues with the parameters it knows as if nothing had happened."""

import pytest
import torch

from yolofast.optim.optimizer import build_optimizer, split_groups

KINDS = {
    "sgd": lambda p: torch.optim.SGD([p], lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam([p], lr=0.1, betas=(0.9, 0.999), weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW([p], lr=0.1, betas=(0.9, 0.999), weight_decay=0.01),
}


@pytest.mark.parametrize("name", KINDS)
def test_old_and_new_parameters_move_as_with_an_optimizer_of_their_own(name):
    """Each compared with torch's, which counts steps by parameter."""
    generator = torch.Generator().manual_seed(0)
    ours = [torch.nn.Parameter(torch.randn(5, generator=generator)) for _ in range(3)]
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    references = [KINDS[name](p) for p in theirs]

    def learn(optimizer, which):
        optimizer.set([0.1] * len(which), 0.9)
        for _ in range(4):
            for n in which:
                ours[n].grad = torch.randn(5, generator=generator)
                theirs[n].grad = ours[n].grad.clone()
                references[n].step()
            optimizer.step()

    first = build_optimizer(name, [{"params": [ours[n]], "weight_decay": 0.01} for n in (0, 1)])
    learn(first, [0, 1])
    frozen = ours[1].detach().clone()
    second = first.regrouped([{"params": [ours[n]], "weight_decay": first.weight_decay} for n in (2, 0)])
    learn(second, [2, 0])
    assert torch.equal(ours[1], frozen)
    for own, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own, expected, rtol=1e-5, atol=1e-6)


def test_adam_refuses_a_group_with_two_counts():
    a, b = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    optimizer = build_optimizer("adam", [{"params": [a], "weight_decay": 0.0}])
    optimizer.set([0.1], 0.9)
    a.grad = torch.ones(2)
    optimizer.step()
    with pytest.raises(AssertionError, match="mixes"):
        optimizer.regrouped([{"params": [a, b], "weight_decay": 0.0}])


def test_groups_are_split_part_by_part():
    a, b, c = (torch.nn.Parameter(torch.ones(n)) for n in (1, 2, 3))
    groups = [{"params": [a, b], "weight_decay": 0.0}, {"params": [c], "weight_decay": 0.5}]
    split = split_groups(groups, lambda p: {1: 1, 2: 0, 3: 1}[p.numel()], 2)
    assert [[p.numel() for p in group["params"]] for group in split] == [[2], [], [1], [3]]
    assert [group["weight_decay"] for group in split] == [0.0, 0.5, 0.0, 0.5]
