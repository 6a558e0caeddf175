"""Maps joined in place, shared by several layers and made by convolutions that run as one: against plain torch in
float64, values and gradients, piece by piece and in whole networks. Run as a program, as `comparisons` is."""

import copy
from collections import Counter
from contextlib import nullcontext

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from tests.fused.comparisons import loops_run_in_the_interpreter, off, some_map
from yolofast import build_model
from yolofast.fused.concat import ConcatBuffer
from yolofast.fused.fork import fork, row_stride
from yolofast.fused.low_precision import forward_in
from yolofast.fused.norm_act import norm_act
from yolofast.fused.pool import doubled, max_pool
from yolofast.fused.siblings import run_as_one
from yolofast.model.blocks import Conv, side_by_side
from yolofast.precision import without_kernels

EVERY_KIND = {
    "nc": 3, "depth_multiple": 1.0, "width_multiple": 1.0, "anchors": [[10, 13, 16, 30], [30, 61, 62, 45]],
    "backbone": [
        [-1, 1, "Conv", [8, 3, 2]],
        [-1, 1, "Conv", [16, 3, 2]],
        [-1, 1, "Conv", [8, 1, 1]],  # 2, 3: siblings
        [-2, 1, "Conv", [8, 1, 1]],
        [-1, 1, "Conv", [8, 3, 1]],
        [-1, 1, "Conv", [8, 3, 1]],
        [[-1, -2, -3, -4], 1, "Concat", [1]],
        [-1, 1, "Conv", [24, 1, 1]],
        [-1, 1, "MP", []],  # 8, read by 9, 10 and the joint maps of 16 and 20
        [-1, 1, "SPPCSPC", [16]],
        [-2, 1, "DownC", [24]],
        [-1, 1, "SP", [5]],
        [-2, 1, "SP", [9]],
        [[-1, -2, -3], 1, "Concat", [1]],
    ],
    "head": [
        [-1, 1, "Conv", [16, 1, 1]],
        [-1, 1, "nn.Upsample", ["None", 2, "nearest"]],
        [[-1, 9, 8], 1, "Concat", [1]],
        [-1, 1, "RepConv", [16, 3, 1]],
        [9, 1, "Conv", [16, 3, 1]],
        [[-1, -2], 1, "Shortcut", [1]],
        [[-1, 8, 9, 8], 1, "Concat", [1]],
        [-1, 2, "Conv", [16, 1, 1]],
        [14, 1, "Conv", [16, 3, 1]],
        [[-2, -1], 1, "Detect", ["nc", "anchors"]],
    ],
}  # fmt: skip


_AS_ROUNDED = 4.0
"""What is not there, or there twice, is off by a hundred times as much and more."""


class PassesOverMaps(TorchDispatchMode):
    """Counts what only copies maps or adds them, and what torch copies because it is a part of a wider map."""

    def __init__(self):
        super().__init__()
        self.found = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = str(function).split(".")[1]
        if name in ("cat", "copy_", "add", "add_") and torch.is_tensor(result) and result.dim() == 4:
            self.found[name] += 1
        if name in ("convolution", "convolution_backward"):
            maps = args[: 1 + (name == "convolution_backward")]
            self.found["strided"] += sum(not one.is_contiguous(memory_format=torch.channels_last) for one in maps)
        return result


def norm_of(channels, device):
    norm = nn.BatchNorm2d(channels, device=device)
    with torch.no_grad():
        norm.weight.uniform_(0.5, 1.5), norm.bias.normal_()
    return norm


def compare_joins(device):
    """One map of each maker, read by others too: alone in the joint map, and there a second time."""
    for only in (True, False):
        norms = [norm_of(5, device), norm_of(5, device)]
        exact = [copy.deepcopy(norm).double() for norm in norms]
        x, small = some_map(2, 5, 4, 6, device=device), some_map(2, 3, 2, 3, device=device)
        learning = [x.requires_grad_(), small.requires_grad_()]
        others = [one.detach().double().requires_grad_() for one in learning]

        buffer = ConcatBuffer([5, 5, 3, 5, 5])
        first, again = fork(norm_act(learning[0], norms[0], nn.SiLU(), buffer.slot(1, only)), 2)
        pooled, third = fork(max_pool(again, 3, 1, buffer.slot(0, only)), 2)
        wide, also = fork(doubled(learning[1], buffer.slot(2, only)), 2)
        added = norm_act(third.contiguous(), norms[1], nn.Identity(), buffer.slot(3, only), plus=learning[0])
        foreign = pooled * 2  # not written to its place by its maker
        joint = buffer.concat([pooled, first, wide, added, foreign])
        assert type(joint.grad_fn).__name__ == "_ConcatBackward"
        assert row_stride(pooled) == (23 if only else 5)

        z = nn.SiLU()(exact[0](others[0]))
        p = nn.MaxPool2d(3, 1, 1)(z)
        w = nn.Upsample(scale_factor=2)(others[1])
        expected = torch.cat([p, z, w, exact[1](p) + others[0], p * 2], 1)
        assert off(joint, expected) < 1e-5
        given, more = torch.randn_like(joint), torch.randn_like(wide)
        outputs, gradients = fork(joint, 3), [given, 2 * given, -given]
        torch.autograd.backward([*outputs, also], [*gradients, more])
        torch.autograd.backward([expected, w], [2 * given.double(), more.double()])
        pairs = [*zip(learning, others, strict=True)]
        for norm, right in zip(norms, exact, strict=True):
            pairs += zip(norm.parameters(), right.parameters(), strict=True)
        for ours, right in pairs:
            assert off(ours.grad, right.grad) < 1e-5, only


def compare_forks(device):
    """More readers than a kernel takes, fewer gradients than readers, and a second backward pass."""
    norm = norm_of(4, device)
    exact = copy.deepcopy(norm).double()
    x = some_map(2, 4, 3, 5, device=device).requires_grad_()
    other = x.detach().double().requires_grad_()
    for readers, used in ((6, 6), (3, 2), (4, 1)):
        maps = fork(norm_act(x, norm, nn.SiLU()), readers)
        assert type(maps[0].grad_fn).__name__ == "_ForkBackward"
        given = [torch.randn_like(maps[0]) for _ in range(used)]
        expected = torch.autograd.grad(nn.SiLU()(exact(other)), other, sum(given).double())
        for _ in range(2):
            found = torch.autograd.grad(maps[-used:], x, given, retain_graph=True)
            assert off(found[0], expected[0]) < 1e-5, (readers, used)
    plain = x * 2
    assert all(one is plain for one in fork(plain, 3))  # autograd adds its gradients


def compare_siblings(device):
    for window, channels in ((1, (8, 16)), (3, (5, 7, 4))):
        convs = nn.ModuleList(Conv(6, count, window) for count in channels)
        convs.to(device, memory_format=torch.channels_last)
        exact = copy.deepcopy(convs).double()
        x = some_map(2, 6, 5, 4, device=device).requires_grad_()
        other = x.detach().double().requires_grad_()
        found = side_by_side(convs, x, [None] * len(channels))
        expected = [conv(other) for conv in exact]
        given = [torch.randn_like(one) for one in found]
        torch.autograd.backward(found, given)
        torch.autograd.backward(expected, [one.double() for one in given])
        for a, b in [*zip(found, expected, strict=True)]:
            assert off(a, b) < 1e-5
        for (name, a), b in zip([("x", x), *convs.named_parameters()], [other, *exact.parameters()], strict=True):
            assert off(a.grad, b.grad) < 1e-5, (window, name)
        for (name, a), b in zip(convs.named_buffers(), exact.buffers(), strict=True):
            assert off(a, b) < 1e-5 if a.is_floating_point() else torch.equal(a, b), name
    differ = Conv(6, 8, 1), Conv(6, 8, 3), Conv(6, 8, 1, g=2), nn.Sequential()
    x = some_map(1, 6, 2, 2, device=device)
    assert all(run_as_one([differ[0].conv, getattr(one, "conv", one)], x) is None for one in differ[1:])


def changed(model, smooth):
    """With nothing that bends, rounding moves gradients by little; what stays must not be computed."""
    for module in model.modules():
        if smooth and isinstance(getattr(module, "act", None), nn.LeakyReLU):
            module.act = nn.SiLU()
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5), nn.init.normal_(module.bias)
    return model.train()


def gradients(model, x, forward=None):
    """Of all weights in one row, and the maps."""
    model.zero_grad()
    maps = (forward or model)(x)
    source = torch.Generator().manual_seed(1)
    given = [torch.randn(one.shape, generator=source).to(x.device) for one in maps]
    sum((one.double() * other).sum() for one, other in zip(maps, given, strict=True)).backward()
    return torch.cat([p.grad.double().flatten() for p in model.parameters() if p.grad is not None]), maps


def compare_network(device, cfg, size, batch=2, frozen=()):
    """Rounding is what it is in plain torch's float32, which is compared with float64 too.

    With the weights side by side in memory no pass over maps is left that only joins them or adds gradients: counted.
    """
    model = changed(build_model(cfg), smooth=True).to(device, memory_format=torch.channels_last)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not name.startswith(frozen) if frozen else True)
    exact = copy.deepcopy(model).double()
    x = torch.rand(batch, 3, size, size).to(device).contiguous(memory_format=torch.channels_last)
    right, expected = gradients(exact, x.double())
    with without_kernels():
        plain, of_plain = gradients(copy.deepcopy(model), x)
    for forward in (None, forward_in(model, torch.float32)):
        with PassesOverMaps() as passes:
            found, maps = gradients(model, x, forward)
        for ours, theirs, one in zip([found, *maps], [plain, *of_plain], [right, *expected], strict=True):
            assert off(ours, one) < _AS_ROUNDED * off(theirs, one), (off(ours, one), off(theirs, one))
    gradients(exact, x.double())
    for (name, a), b in zip(model.state_dict().items(), exact.state_dict().values(), strict=True):
        assert torch.allclose(a.double(), b.double(), rtol=1e-3, atol=1e-4), name
    return passes.found


def compare_rounding(device, cfg, size, batch, draws=3):
    """In bfloat16, how far the gradient of all weights is from that in float64: no farther than plain torch's.

    One draw may be a fifth farther or two fifths nearer, so several count together.
    """
    errors = []
    for draw in range(draws):
        torch.manual_seed(draw)
        model = changed(build_model(cfg), smooth=True).to(device, memory_format=torch.channels_last)
        x = torch.rand(batch, 3, size, size).to(device).contiguous(memory_format=torch.channels_last)
        exact, _ = gradients(copy.deepcopy(model).double(), x.double())
        for kernels, forward in ((nullcontext, forward_in(model, torch.bfloat16)), (without_kernels, model)):
            with kernels(), torch.autocast(device, torch.bfloat16, cache_enabled=False):
                found, maps = gradients(model, x, forward)
            errors.append(off(found, exact))
            assert (type(maps[0].grad_fn).__name__ == "_PredictBackward") == (kernels is nullcontext)
    ours, plain = sum(errors[::2]), sum(errors[1::2])
    assert 0 < ours < 1.1 * plain, errors


def compare_networks(device):
    kinds = compare_network(device, EVERY_KIND, 64)
    # What the last Concat joins was either written for another or is no kernel's; DownC takes no place. RepConv and
    # Shortcut add; one map has more readers than a kernel takes gradients. Strided are the gradients of predictions.
    assert kinds == Counter(cat=1, copy_=1, add=5, strided=2), kinds
    compare_network(device, EVERY_KIND, 64, frozen=("model.0.", "model.1.", "model.3.", "model.9.cv2"))
    if device == "cuda":  # half a minute in the interpreter
        tiny = compare_network(device, "yolov7-tiny", 64)
        assert not +tiny - Counter(add=3, strided=3), tiny  # the head's vectors, which are folded in two bytes
    small = {"family": "yolox", "nc": 3, "names": ["a", "b", "c"], "width_multiple": 0.125, "image_size": 64}
    yolox = compare_network(device, {**small, "depth_multiple": 0.67, "depthwise": False}, 64)
    # The images, the head's predictions and the weights of its branches; rows of six bottlenecks have more gradients
    # than a kernel takes.
    assert yolox == Counter(cat=7, strided=9, add=6), yolox
    if device == "cuda":
        compare_network(device, {**small, "depth_multiple": 0.33, "depthwise": True}, 64)
        compare_rounding(device, {**small, "depth_multiple": 0.33, "depthwise": False}, 64, batch=4)


def compare_all(device="cpu"):
    torch.manual_seed(0)
    loops_run_in_the_interpreter()
    compare_joins(device)
    compare_forks(device)
    compare_siblings(device)
    compare_networks(device)
    with without_kernels():
        model = changed(build_model(EVERY_KIND), smooth=False).to(device)
        with PassesOverMaps() as passes:
            gradients(model, torch.rand(1, 3, 64, 64, device=device))
        assert passes.found["cat"] > 3


if __name__ == "__main__":
    compare_all()
    print("same")
