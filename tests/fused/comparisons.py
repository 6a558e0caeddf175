"""The kernels of `yolofast/fused` against plain torch in float64, values and gradients. Run as a program, it compares
them on a CPU, for which Triton needs TRITON_INTERPRET=1 from its beginning; `tests/gpu` has them on a GPU."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

from yolofast.fused import norm_act, stem
from yolofast.fused.conv_act import ConvAct
from yolofast.fused.low_precision import forward_in
from yolofast.fused.pool import max_pool
from yolofast.fused.predict import folded_prediction, joint_prediction
from yolofast.model.blocks import MP
from yolofast.precision import TRITON_IS_INTERPRETED, without_kernels

ACTIVATIONS = (nn.SiLU(), nn.LeakyReLU(0.1), nn.Identity(), nn.Hardswish())


def loops_run_in_the_interpreter():
    """It takes the bound of a loop, an array of one number, as an index, which numpy has given up."""
    if TRITON_IS_INTERPRETED:
        from triton.runtime import interpreter

        patch = interpreter._patch_lang_tensor

        def patched(tensor, scope):
            patch(tensor, scope)
            scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

        interpreter._patch_lang_tensor = patched


def off(ours, exact):
    """Relative; of what is 0 the difference itself."""
    return ((ours.double() - exact.double()).norm() / exact.double().norm().clamp(min=1e-12)).item()


def some_map(*shape, device, dtype=torch.float32):
    return torch.randn(shape, device=device).to(dtype).contiguous(memory_format=torch.channels_last)


def compare_norm_act(device, dtype=torch.float32, bound=1e-5, shapes=((3, 20, 6, 5), (2, 70, 9, 4), (2, 3, 1, 1))):
    for turn, shape in enumerate(shapes):
        for act in ACTIVATIONS if dtype is torch.float32 else ACTIVATIONS[:-1]:  # torch computes the last by itself
            norm = nn.BatchNorm2d(shape[1], eps=1e-3, momentum=0.03, device=device)
            with torch.no_grad():
                norm.weight.uniform_(0.5, 1.5), norm.bias.normal_()
            exact = copy.deepcopy(norm).double()
            wide = some_map(shape[0], shape[1] + 8 * turn, *shape[2:], device=device, dtype=dtype)
            x = (wide[:, : shape[1]] * 2 + 5).contiguous(memory_format=torch.channels_last).requires_grad_()
            other = x.detach().double().requires_grad_()
            z, expected = norm_act.norm_act(x, norm, act), act(exact(other))
            assert "NormAct" in type(z.grad_fn).__name__ or isinstance(act, nn.Hardswish)
            # As a part of a wider map, as joined maps hand them back.
            given = torch.randn_like(wide)[:, : shape[1]]
            # Next to where an activation bends rounding decides on which side a number is.
            bent = isinstance(act, nn.LeakyReLU) & (expected.detach().abs() < 1e-3)
            given = torch.where(bent, 0.0, given) if turn == 0 else given * ~bent
            z.backward(given)
            expected.backward(given.double())
            pairs = {
                "z": (z, expected), "x": (x.grad, other.grad), "weight": (norm.weight.grad, exact.weight.grad),
                "bias": (norm.bias.grad, exact.bias.grad), "mean": (norm.running_mean, exact.running_mean),
                "var": (norm.running_var, exact.running_var),
            }  # fmt: skip
            for name, (ours, right) in pairs.items():
                if shape[2:] == (1, 1) and name in ("x", "weight"):  # two places: normalised they are -1 and 1
                    continue
                assert off(ours, right) < bound, (name, shape, act, off(ours, right))


def compare_pools(device):
    for window, stride in ((2, 2), (5, 1), (3, 1)):
        for shape in ((2, 5, 4, 6), (1, 70, 8, 2), (3, 64, 6, 6)):
            # Whole numbers: many windows have several largest.
            x = some_map(*shape, device=device).round()
            ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
            y, z = (
                max_pool(ours, window, stride),
                F.max_pool2d(theirs, window, stride, window // 2 if stride == 1 else 0),
            )
            assert type(y.grad_fn).__name__ in ("_HalveBackward", "_WindowBackward")
            given = torch.randn_like(z).round(decimals=2)
            y.backward(given)
            z.backward(given)
            assert torch.equal(y, z), (window, shape)
            with torch.no_grad():
                assert torch.equal(max_pool(x, window, stride), z)
            assert torch.allclose(ours.grad, theirs.grad, atol=1e-5), (window, shape)


def compare_stem(device, dtype=torch.float16, bound=1e-3):
    """float16 on the CPU: the interpreter multiplies no bfloat16."""
    for stride, height, width, outputs in ((2, 8, 10, 32), (1, 7, 5, 24), (2, 9, 7, 40)):
        conv = nn.Conv2d(3, outputs, 3, stride, 1, bias=False, device=device, dtype=dtype)
        exact = copy.deepcopy(conv).double()
        x = some_map(2, 3, height, width, device=device, dtype=dtype)
        y, expected = stem.convolution(conv, x), exact(x.double())
        assert type(y.grad_fn).__name__ == "_StemBackward"
        given = torch.randn_like(y)
        y.backward(given)
        expected.backward(given.double())
        assert off(y, expected) < bound
        assert off(conv.weight.grad, exact.weight.grad) < bound


def compare_conv_act(device, dtype=torch.float16, bound=1e-3):
    """In all ways, and as some channels of a wider map, whose others stay as they are."""
    silu, leaky, hard = ACTIVATIONS[0], ACTIVATIONS[1], ACTIVATIONS[3]
    shapes = (
        (16, 24, 3, 1, silu, 7, 9), (16, 32, 3, 2, silu, 9, 7), (32, 40, 1, 1, leaky, 5, 6), (48, 21, 1, 1, None, 4, 4),
        (3, 32, 3, 2, leaky, 10, 12), (3, 24, 3, 1, hard, 5, 5), (12, 16, 3, 1, silu, 4, 5),
    )  # fmt: skip
    for c1, c2, k, s, act, height, width in shapes:
        conv = nn.Conv2d(c1, c2, k, s, k // 2, device=device, dtype=dtype)
        block = ConvAct(conv, act, of_images=c1 == 3)
        x = some_map(2, c1, height, width, device=device, dtype=dtype)
        exact = copy.deepcopy(conv).double()(x.double())
        exact = (exact if act is None else act(exact)).detach()
        # The fourth channel of an image is not looked at.
        x = torch.cat((x, torch.full_like(x[:, :1], 7.0)), 1) if c1 == 3 else x
        x = x.contiguous(memory_format=torch.channels_last)
        assert off(block(x), exact) < bound
        ways = list(block._ways())
        assert len(ways) > 1 or dtype is torch.float32 or c1 == 12
        for way in ways if block.can_join else ():
            assert off(block._run(x, None, True, way), exact) < bound, way
            for dense in (True, False):
                wide = some_map(2, c2 + 24, *exact.shape[2:], device=device, dtype=dtype)
                before = wide.clone()
                own = wide[:, 8 : 8 + c2]
                y = block._run(x, own, dense, way)
                assert off(y, exact) < bound and off(own, exact) < bound, (way, dense)
                assert (y.data_ptr() == own.data_ptr()) is not dense
                own.copy_(before[:, 8 : 8 + c2])
                assert torch.equal(wide, before), "other channels"


def compare_prediction(device):
    for before, after in ((False, False), (True, True), (True, False), (False, True)):
        conv = nn.Conv2d(6, 3 * 7, 1, device=device).double()
        vectors = {
            "before": torch.randn(1, 6, 1, 1, device=device, dtype=torch.float64) if before else None,
            "after": torch.randn(1, 21, 1, 1, device=device, dtype=torch.float64) if after else None,
        }
        x = some_map(2, 6, 4, 3, device=device, dtype=torch.float64)
        learning = [x, *(one for one in vectors.values() if one is not None)]
        for one in learning:
            one.requires_grad_()
        learning += conv.parameters()
        raw = folded_prediction(x, conv, 3, **vectors)
        y = conv(x if vectors["before"] is None else x + vectors["before"])
        y = y if vectors["after"] is None else y * vectors["after"]
        y = y.view(2, 3, 7, 4, 3).permute(0, 1, 3, 4, 2)
        given = torch.randn_like(y)
        # As the losses give it: in memory as the map is, with zeros between the rows.
        strided = torch.zeros(raw.untyped_storage().nbytes() // 8, dtype=y.dtype, device=device)
        strided = strided.as_strided(raw.shape, raw.stride()).copy_(given)
        exact = torch.autograd.grad(y, learning, given)
        for form in (given, strided):
            found = torch.autograd.grad(raw, learning, form, retain_graph=True)
            assert off(raw, y) < 1e-12
            assert all(off(a, b) < 1e-12 for a, b in zip(found, exact, strict=True))


def compare_joint_prediction(device):
    first, second, third = (nn.Conv2d(6, count, 1, device=device).double() for count in (4, 1, 9))
    x = some_map(2, 12, 4, 3, device=device, dtype=torch.float64).requires_grad_()
    box, classes = x.split(6, 1)
    y = torch.cat((first(box), second(box), third(classes)), 1).permute(0, 2, 3, 1)[:, None]
    raw = joint_prediction(x, ((first, second), (third,)))
    given = torch.randn_like(y)
    learning = [x, *(p for conv in (first, second, third) for p in conv.parameters())]
    exact = torch.autograd.grad(y, learning, given)
    found = torch.autograd.grad(raw, learning, given)
    assert raw.shape == y.shape and off(raw, y) < 1e-12
    assert all(off(a, b) < 1e-12 for a, b in zip(found, exact, strict=True))


def compare_low_precision(device):
    """What autocast computes, number for number."""
    layers = nn.Conv2d(3, 8, 3, bias=False), nn.Conv2d(8, 8, 1, bias=False), nn.Conv2d(8, 4, 3, bias=False, groups=4)
    model = nn.Sequential(*layers).to(device, memory_format=torch.channels_last)
    model[1].weight.requires_grad_(False)
    x = some_map(2, 3, 8, 8, device=device)
    found = []
    for forward in (model, forward_in(model, torch.bfloat16)):
        model.zero_grad()
        with torch.autocast(device, torch.bfloat16):
            y = forward(x)
        y.float().square().sum().backward()
        assert model[1].weight.grad is None
        found.append([y, model[0].weight.grad, model[2].weight.grad])
    for plain, low, layer in zip(*found, (None, model[0], model[2]), strict=True):
        assert torch.equal(plain, low)
        assert layer is None or (low.dtype, low.stride()) == (torch.float32, layer.weight.stride())


def compare_all(device="cpu"):
    loops_run_in_the_interpreter()
    torch.manual_seed(0)
    compare_norm_act(device)
    compare_pools(device)
    compare_stem(device)
    compare_prediction(device)
    for dtype in (torch.float16, torch.float32):
        compare_conv_act(device, dtype)
    compare_joint_prediction(device)
    compare_low_precision(device)
    with without_kernels():
        x = some_map(1, 4, 4, 4, device=device).requires_grad_()
        assert type(MP()(x).grad_fn).__name__ == "MaxPool2DWithIndicesBackward0"
    assert type(MP()(x).grad_fn).__name__ == "_HalveBackward"


if __name__ == "__main__":
    compare_all()
    print("same")
