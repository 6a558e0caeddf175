"""How much calmer a loss would be with fewer mosaics and mixups.

Every image is a mosaic with probability p, and a mosaic is blended with probability q, independently. So the shares in
a batch of n images vary by p(1−p)/n, pq(1−pq)/n and together by pq(1−p)/n; how much the loss follows them was fitted.
What mosaics do to the boxes is part of that fit; what learning from other images does to the network is not. Where
every image is a mosaic, the loss without one is not known, and nothing is forecast for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from yolofast.report.diagnose.fluctuation import Fluctuation
from yolofast.report.logs.history import MIX, Floats

_FACTORS = (0.8, 0.6, 0.4, 0.2, 0.0)
_WORTH = 0.1


@dataclass(frozen=True)
class MixChange:
    mosaic: tuple[float, float]
    """Before and after."""
    mixup: tuple[float, float]
    cut: float
    """Share of the standard deviation that would go."""


def best_mix_change(
    around: Fluctuation, contents: Mapping[str, Floats], mosaic_given: Any = None, mixup_given: Any = None
) -> MixChange | None:
    """The smallest change that is worth it, or the one that helps most; None if none helps.

    What the settings give is changed where they say it, otherwise what was measured.
    """
    slopes = (around.effects.alone.get("mosaic", 0.0), around.effects.alone.get("mixup", 0.0))
    contents = _until_mosaic_closes(contents)
    mosaic = float(contents["mosaic"].mean()) if "mosaic" in contents else 0.0
    mixup = float(contents["mixup"].mean()) / mosaic if "mixup" in contents and mosaic else 0.0
    images = _images(contents, mosaic, mosaic * mixup)
    if images is None or not any(slopes):
        return None
    mosaic, mixup = _given_or(mosaic, mosaic_given), _given_or(mixup, mixup_given)
    now = _variance(slopes, mosaic, mixup) / images
    tried = []
    for factor in _FACTORS:
        fewer = factor if "mosaic" in varied(around) else 1.0
        for p, q in ((mosaic * fewer, mixup), (mosaic, mixup * factor), (mosaic * fewer, mixup * factor)):
            p, q = round(p, 2), round(q, 2)
            left = around.std**2 - now + _variance(slopes, p, q) / images
            cut = 1 - float(np.sqrt(max(left, 0.0))) / around.std
            tried.append(MixChange((mosaic, p), (mixup, q), cut))
    worth = [change for change in tried if change.cut >= _WORTH]
    best = worth[0] if worth else max(tried, key=lambda change: change.cut)
    return best if best.cut > 0.01 else None


def varied(around: Fluctuation) -> list[str]:
    """Of mosaic and mixup, those whose share changed from batch to batch, so that their effect is known."""
    return [name for name in MIX if name in around.effects.alone]


def _until_mosaic_closes(contents: Mapping[str, Floats]) -> dict[str, Floats]:
    """Epochs without any would look like a spread of the shares."""
    is_on = np.flatnonzero(contents["mosaic"] > 0) if "mosaic" in contents else np.zeros(0, np.int64)
    part = slice(is_on[0], is_on[-1] + 1) if len(is_on) else slice(None)
    return {name: values[part] for name, values in contents.items()}


def _given_or(measured: float, given: Any) -> float:
    return float(given) if isinstance(given, int | float) and 0 <= given <= 1 else round(measured, 2)


def _images(contents: Mapping[str, Floats], mosaic: float, mixup: float) -> float | None:
    """Of a batch, as the spread of the shares shows it: mosaics if they vary, else mixups."""
    for name, share in (("mosaic", mosaic), ("mixup", mixup)):
        spread = float(contents[name].var()) if name in contents else 0.0
        if spread > 1e-9 and 0 < share < 1:
            return share * (1 - share) / spread
    return None


def _variance(slopes: tuple[float, float], p: float, q: float) -> float:
    """For a batch of one image."""
    (a, b), both = slopes, p * q
    return a * a * p * (1 - p) + b * b * both * (1 - both) + 2 * a * b * both * (1 - p)
