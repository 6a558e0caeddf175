"""The kernels of the scans against plain torch in float64: values, states and gradients. Run as a program, it compares
them on a CPU, for which Triton needs TRITON_INTERPRET=1 from its beginning."""

import torch
from torch import Tensor

from yolofast.motion import scan, scan_triton

STATES = 16
ATOL, RTOL = 2e-5, 1e-4
"""Sums of some tens of float32 products round by less; a term that is missing or twice is off by far more."""


def compare_scans(device: str, histories: int, channels: int) -> None:
    """Raises `AssertionError` with the name of the first tensor that differs."""
    draw = torch.Generator(device).manual_seed(0)

    def some(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, device=device)

    wide = some(histories, 5, 2 * channels)  # parts of wider rows, as projections give them
    _compare("causal_conv", {"x": wide[..., :channels], "weight": some(channels, 4), "bias": some(channels)})
    both = some(histories, 5, 2 * STATES)
    rows = {
        "x": some(histories, 5, channels), "step": some(histories, 5, channels), "gate": wide[..., channels:],
        "write": both[..., :STATES], "read": both[..., STATES:],
    }  # fmt: skip
    logs = torch.arange(1.0, STATES + 1, device=device).log().repeat(channels, 1)
    weights = {"step_bias": some(channels) - 3, "log": logs, "skip": some(channels)}
    _compare("scan", {**rows, **weights})
    row = {name: one[:, 0] for name, one in rows.items()}
    for state in (None, some(histories, channels, STATES)):
        _compare("scan_step", {"state": state, **row, **weights})


def _compare(name: str, given: dict[str, Tensor | None]) -> None:
    """No gradient goes to a state: it is handed on detached."""
    exact = _found(scan, name, {key: None if one is None else one.double() for key, one in given.items()})
    for key, one in _found(scan_triton, name, given).items():
        torch.testing.assert_close(
            one.double(), exact[key], atol=ATOL, rtol=RTOL, msg=lambda text, key=key: f"{name}, {key}: {text}"
        )


def _found(module: object, name: str, given: dict[str, Tensor | None]) -> dict[str, Tensor]:
    # Views of what they are part of, so that kernels meet the strides they meet in a network.
    leaves = {key: None if one is None else one.detach().requires_grad_(key != "state") for key, one in given.items()}
    found = getattr(module, name)(*leaves.values())
    value, *state = found if isinstance(found, tuple) else (found,)
    learning = {key: one for key, one in leaves.items() if one is not None and one.requires_grad}
    slopes = torch.arange(value.numel(), device=value.device, dtype=value.dtype).view_as(value).cos()
    gradients = torch.autograd.grad((value * slopes).sum(), list(learning.values()), materialize_grads=True)
    named = {f"gradient of {key}": one for key, one in zip(learning, gradients, strict=True)}
    values = dict(zip(("value", "state"), (value, *state), strict=False))
    return {**{key: one.detach() for key, one in values.items()}, **named}


if __name__ == "__main__":
    scan_triton._EACH = scan_triton._CONV_EACH = 2  # three histories are then more than a program takes
    scan_triton._CONV_BLOCK = 64
    compare_scans("cpu", histories=3, channels=64)
    print("same")
