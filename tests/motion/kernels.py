"""The kernels of TrackSSM against plain torch in float64: boxes, losses, gradients of all weights. Run as a program, it
compares them on a CPU, for which Triton needs TRITON_INTERPRET=1 from its beginning."""

import copy

import torch
from torch import Tensor, nn

from tests.motion.golden import golden_weights
from yolofast.motion import loss_triton, scan, scan_triton, stages_triton
from yolofast.motion.trackssm import STAGES, TrackSSM, TrackSSMShape, loss_of
from yolofast.optim import adam

ATOL = 1e-4
"""Of a gradient's norm. Sums of some hundred float32 products round by less; what is missing is off by far more."""
_UNDECIDED = 1e-5
"""An input of a ReLU that is nearer to 0: rounding decides on its side."""


def compare_kernels(device: str, histories: int, blocks: int, sigmoid: bool = True) -> None:
    """Raises `AssertionError` with the name of the first tensor that differs."""
    model = TrackSSM(TrackSSMShape(blocks=blocks, sigmoid=sigmoid))
    model.load_state_dict(golden_weights({name: tuple(value.shape) for name, value in model.state_dict().items()}))
    model = model.to(device)
    exact = copy.deepcopy(model).double()
    rows, truth = _decided(exact, 2 * histories + 8, histories)
    wanted, found = _found(exact, rows, truth), _found(model, rows.float(), truth.float(), kernels=True)
    for name, one in wanted.items():
        off = (found[name].double() - one).norm()
        assert off <= ATOL * max(float(one.norm()), 1e-3), f"{name}: {off:g} of {one.norm():g}"


def compare_losses(device: str) -> None:
    """Boxes that overlap, that are apart, that are equal (where slopes of a maximum are shared), and without a size."""
    draw = torch.Generator().manual_seed(0)
    last, truth = (torch.rand(9, 4, generator=draw, dtype=torch.float64) for _ in range(2))
    boxes = last + torch.rand(STAGES, 9, 4, generator=draw, dtype=torch.float64) - 0.5
    boxes[:, 0] += 3  # far away: smooth L1 is straight there
    boxes[:, 1, 2:] = -0.5
    boxes[:, 2] = last[2] = truth[2] = 0.5
    found = []
    for plain in (True, False):
        own = (boxes if plain else boxes.float()).to(device).detach().clone().requires_grad_()
        with _serving(plain):
            terms = loss_of(own, last.to(own), truth.to(own))
        (terms["l1"] + 0.7 * terms["giou"]).backward()
        found.append([*(one.detach().double() for one in terms.values()), own.grad.double()])
    for exact, one in zip(*found, strict=True):
        torch.testing.assert_close(one, exact, atol=1e-5, rtol=1e-5)


def compare_adam(device: str) -> None:
    """Of a lone tensor, step by step."""
    draw, found = torch.Generator().manual_seed(0), []
    start, slopes = torch.randn(1500, generator=draw), torch.randn(4, 1500, generator=draw)
    for kind in (torch.float64, torch.float32):
        param = start.to(device, kind)
        optimizer = adam.Adam([{"params": [param], "weight_decay": 0.0}])
        optimizer.set([1e-2], 0.9)
        for slope in slopes:
            param.grad = slope.to(param)
            optimizer.step()
        found.append([one.double() for one in (param, *optimizer.tensors())])
    for exact, one in zip(*found, strict=True):
        torch.testing.assert_close(one, exact, atol=1e-6, rtol=1e-5)


def _decided(exact: nn.Module, drawn: int, wanted: int) -> tuple[Tensor, Tensor]:
    """Histories with which no ReLU depends on rounding, and the boxes that follow."""
    device = next(exact.parameters()).device
    draw = torch.Generator().manual_seed(0)
    rows, truth = (torch.rand(drawn, *shape, generator=draw, dtype=torch.float64) for shape in ((5, 8), (4,)))
    rows[..., 4:] -= 0.5
    nearest = []
    hooks = [
        stage.linear1.register_forward_hook(lambda _, __, output: nearest.append(output.abs().amin(1)))
        for stage in exact.ssm_decoder.stages
    ]
    with _serving(plain=True), torch.no_grad():
        exact(rows.to(device))
    for hook in hooks:
        hook.remove()
    decided = (torch.stack(nearest).amin(0) > _UNDECIDED).nonzero()[:wanted, 0]
    assert len(decided) == wanted
    return rows.to(device)[decided], truth.to(device)[decided]


def _found(model: TrackSSM, rows: Tensor, truth: Tensor, kernels: bool = False) -> dict[str, Tensor]:
    with _serving(not kernels):
        boxes = model(rows)
        terms = loss_of(boxes, rows[:, -1, :4], truth)
        gradients = torch.autograd.grad(
            terms["l1"] + 0.7 * terms["giou"], list(model.parameters()), materialize_grads=True
        )
    named = {name: one for (name, _), one in zip(model.named_parameters(), gradients, strict=True)}
    return {"boxes": boxes.detach(), **{name: one.detach() for name, one in terms.items()}, **named}


class _serving:  # noqa: N801 - used as a function
    """Says which way tensors of any device are computed."""

    def __init__(self, plain: bool) -> None:
        self._plain = plain

    def __enter__(self) -> None:
        self._before = scan.fastest
        scan.fastest = lambda tensor: scan if self._plain else scan_triton

    def __exit__(self, *_: object) -> None:
        scan.fastest = self._before


if __name__ == "__main__":
    # Few programs, of which each kernel has several, and more histories than one of them takes.
    scan_triton._EACH = scan_triton._CONV_EACH = stages_triton._EACH = 2
    scan_triton._BLOCK = scan_triton._CONV_BLOCK = 256
    stages_triton._BLOCK = 128
    loss_triton._BLOCK = 8
    compare_losses("cpu")
    adam._in_one_kernel = lambda params: params[0].dtype == torch.float32
    compare_adam("cpu")
    compare_kernels("cpu", histories=3, blocks=1)
    print("same")
