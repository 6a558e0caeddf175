import pytest
import torch
from torch import nn

from tests.optim.waits import NeverWaits
from tests.train.small_run import flags, state_of
from yolofast.cli import main
from yolofast.optim.adam import AdamW
from yolofast.optim.muon import Muon, is_matrix, orthogonal
from yolofast.optim.optimizer import build_optimizer, parameter_groups

SHAPES = [(4, 3, 3, 3), (8, 2, 1, 1), (4, 3, 3, 3), (6, 1, 3, 3), (1, 5, 1, 1), (7,)]
"""Wide, tall, wide again; depthwise, implicit, a scale."""


def parameters():
    generator = torch.Generator().manual_seed(7)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def newton_schulz(values):
    """Of singular values: what the published polynomial makes of them, by hand."""
    values = values / values.square().sum().sqrt()
    for _ in range(5):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    return values


def test_orthogonalises_singular_values_and_keeps_directions():
    generator = torch.Generator().manual_seed(0)
    matrices = torch.randn(3, 5, 9, generator=generator, dtype=torch.float64) * torch.tensor([[[1e-4]], [[1]], [[1e4]]])
    for matrix, found in zip(matrices, orthogonal(matrices), strict=True):
        left, values, right = torch.linalg.svd(matrix, full_matrices=False)
        torch.testing.assert_close(found, left @ torch.diag(newton_schulz(values)) @ right, rtol=1e-3, atol=1e-3)
        assert torch.linalg.svdvals(found).min() > 0.5 and torch.linalg.svdvals(found).max() < 1.3


def test_a_matrix_of_zeros_stays_one():
    assert not orthogonal(torch.zeros(1, 2, 3)).any()


def test_is_a_plain_loop_for_matrices_and_adamw_for_all_else():
    ours, theirs = parameters(), parameters()
    optimizer = build_optimizer("muon", [{"params": ours, "weight_decay": 0.1}])
    rest = [p for p in theirs if not is_matrix(p)]
    assert [tuple(p.shape) for p in rest] == SHAPES[3:]
    reference = torch.optim.AdamW(rest, betas=(0.9, 0.999), weight_decay=0.1)
    velocity = [torch.zeros_like(p) for p in theirs]
    generator = torch.Generator().manual_seed(1)
    for step in range(4):
        lr = 0.01 * (step + 1)
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn(a.shape, generator=generator)
            b.grad = a.grad.clone()
        optimizer.set([lr], 0.9)
        optimizer.step()
        reference.param_groups[0]["lr"] = lr
        reference.step()
        for place, weight in enumerate(theirs):
            if not is_matrix(weight):
                continue
            velocity[place] = 0.9 * velocity[place] + weight.grad
            matrix = (weight.grad + 0.9 * velocity[place]).flatten(1)
            left, values, right = torch.linalg.svd(matrix, full_matrices=False)
            turned = left @ torch.diag(newton_schulz(values)) @ right
            with torch.no_grad():
                weight *= 1 - lr * 0.1
                weight -= lr * 0.2 * max(matrix.shape) ** 0.5 * turned.view_as(weight)
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_layers_that_predict_are_moved_as_by_adamw():
    """A network's own groups know them by their bias; hidden layers have none."""
    torch.manual_seed(0)
    muon, adam = (
        nn.Sequential(nn.Conv2d(3, 4, 1, bias=False), nn.BatchNorm2d(4), nn.Conv2d(4, 5, 1)) for _ in range(2)
    )
    adam.load_state_dict(muon.state_dict())
    images = torch.rand(2, 3, 4, 4)
    for model, kind in ((muon, Muon), (adam, AdamW)):
        optimizer = kind(parameter_groups(model, 0.01))
        model(images).square().sum().backward()
        optimizer.set([0.01] * 3, 0.9)
        optimizer.step()
    assert torch.equal(muon[2].weight, adam[2].weight) and torch.equal(muon[2].bias, adam[2].bias)
    assert not torch.equal(muon[0].weight, adam[0].weight)


def test_continues_from_its_state_and_keeps_it_when_regrouped():
    def moved(optimizer, params, steps):
        generator = torch.Generator().manual_seed(3)
        for _ in range(steps):
            for one in params:
                one.grad = torch.randn(one.shape, generator=generator)
            optimizer.set([0.1], 0.9)
            optimizer.step()

    ours, theirs = parameters(), parameters()
    first = build_optimizer("muon", [{"params": ours, "weight_decay": 0.1}])
    moved(first, ours, 3)
    with torch.no_grad():
        for a, b in zip(ours, theirs, strict=True):
            b.copy_(a)
    second = build_optimizer("muon", [{"params": theirs, "weight_decay": 0.1}])
    second.load_state_dict(first.state_dict())
    third = first.regrouped([{"params": ours, "weight_decay": 0.1}])
    moved(second, theirs, 2)
    moved(third, ours, 2)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b)


def test_a_step_can_be_captured():
    params = parameters()
    optimizer = build_optimizer("muon", [{"params": params, "weight_decay": 0.1}])
    for one in params:
        one.grad = torch.ones_like(one)
    optimizer.set([0.1], 0.9)
    with NeverWaits():
        optimizer.step()
    with NeverWaits(), pytest.raises(AssertionError, match="waits"):
        params[0].sum().item()


@pytest.mark.slow
def test_a_run_learns_with_it_and_moves_every_weight(tmp_path):
    args = flags(tmp_path, optimizer="muon", epochs=2, set="lr0=0.002")
    assert main(["train", *args, "--save-init"]) == 0
    begun = torch.load(tmp_path / "runs" / "exp" / "weights" / "init.pt", weights_only=True)["model"]
    ended = state_of(tmp_path)["model"]
    weights = [name for name, value in ended.items() if value.dim() == 4 and "conv" in name]
    assert weights and all(not torch.equal(begun[name], ended[name]) for name in weights)
    assert all(value.isfinite().all() for value in ended.values() if value.is_floating_point())
