"""What a warm-up starts from: published for SGD, and not the same for Adam, which moves a weight by the learning rate
itself, however small its gradient is."""

from collections.abc import Mapping
from typing import Any


def warm_up_starts(hyp: Mapping[str, Any], optimizer: str, faithful: bool) -> tuple[float, float]:
    """Momentum (Adam's β1) and the biases' learning rate at the first iteration.

    A published run with Adam has β1 from the start, because torch's Adam knows no `momentum` that could be warmed up,
    and warms biases up from `warmup_bias_lr`: by 0.1 they would move in every step.
    """
    if optimizer == "sgd":
        return hyp["warmup_momentum"], hyp["warmup_bias_lr"]
    return (hyp["momentum"], hyp["warmup_bias_lr"]) if faithful else (hyp["warmup_momentum"], 0.0)
