"""How much calmer a loss would be if images kept their size, or changed it less."""

import numpy as np

from yolofast.report.dialect import MULTI_SCALE, Change, dialect
from yolofast.report.fluctuation import Fluctuation
from yolofast.report.history import History

_STEP = 32


def without_sizes(history: History, around: Fluctuation) -> tuple[str, Change]:
    calm = around.std * (1 - around.shares.image_size) ** 0.5
    line = (
        f"multi-scale training shows in the loss: at one size the standard deviation would be {calm:.2%} instead of "
        f"{around.std:.2%}{_narrower(history, around, calm)}. This makes the curve calmer, not the network better: "
        "several sizes are there to be learned from, and are no fault by themselves"
    )
    if dialect(history) == "YOLOX":
        return line, Change("multiscale_range", history.settings.get("multiscale_range"), 0)
    return line, Change(MULTI_SCALE, history.settings.get(MULTI_SCALE, True), False)


def _narrower(history: History, around: Fluctuation, calm: float) -> str:
    """The half of the sizes that lies in the middle; a recipe counts heights in steps of 32."""
    sizes = sorted(around.effects.sizes)
    kept = sizes[len(sizes) // 4 : len(sizes) - len(sizes) // 4]
    shape = history.settings.get("input_size")
    if dialect(history) != "our YOLOX" or not shape or not 1 < len(kept) < len(sizes):
        return ""
    spread = float(np.std([around.effects.sizes[size] for size in kept]))
    least, most = (round(size * shape[0] / max(shape) / _STEP) for size in (kept[0], kept[-1]))
    return f", and {(calm**2 + spread**2) ** 0.5:.2%} with random_size={least},{most}"
