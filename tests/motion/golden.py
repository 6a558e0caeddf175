"""TrackSSM's golden numbers, and its weights by formula (tests/golden/README.md)."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from yolofast.motion.trackssm import TrackSSM, TrackSSMShape

_MASK = np.uint64(2**32 - 1)
EXPECTED: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "tracking" / "trackssm" / "expected.json").read_text()
)


def golden_model(blocks: int, sigmoid: bool = True) -> TrackSSM:
    model = TrackSSM(TrackSSMShape(blocks=blocks, sigmoid=sigmoid))
    model.load_state_dict(golden_weights({name: tuple(value.shape) for name, value in model.state_dict().items()}))
    return model


def golden_weights(shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    return {name: _values(name, place, shapes[name]) for place, name in enumerate(sorted(shapes))}


def golden_inputs() -> tuple[Tensor, Tensor]:
    inputs = EXPECTED["inputs"]
    return torch.tensor(inputs["condition"]), torch.tensor(inputs["target"])


def _values(name: str, place: int, shape: tuple[int, ...]) -> Tensor:
    number = np.arange(math.prod(shape), dtype=np.uint64)
    u = ((number + np.uint64(1)) * np.uint64(2654435761) + np.uint64((place + 1) * 40503)) & _MASK
    for _ in range(2):
        u ^= u >> np.uint64(16)
        u = (u * np.uint64(0x45D9F3B)) & _MASK
    u ^= u >> np.uint64(16)
    v = (u.astype(np.float64) / 2**32 - 0.5).reshape(shape)
    if name.endswith("A_log"):
        found = np.log(np.arange(1, shape[-1] + 1)) + 0.2 * v
    elif name.endswith(".D") or (len(shape) == 1 and name.endswith(".weight")):
        found = 1 + 0.2 * v
    elif name.endswith("dt_proj.bias"):
        found = -3 + 2 * v
    elif "embedding" in name:
        found = 4 * v
    elif len(shape) >= 2:
        found = v * math.sqrt(12 / math.prod(shape[1:]))
    else:
        found = 0.2 * v
    return torch.from_numpy(found.astype(np.float32))
