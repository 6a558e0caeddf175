"""The figures of one sequence, of several, and of several classes, all under TrackEval's names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from yolofast.errors import nearest
from yolofast.track.formats.sequence import Floats
from yolofast.track.score import clear, hota, identity
from yolofast.track.score.hota import ALPHAS, Block
from yolofast.track.score.prepare import Prepared

COUNTS = ("Dets", "GT_Dets", "IDs", "GT_IDs")
_ADDED = {"HOTA": hota.COUNTS, "CLEAR": clear.SUMMED, "Identity": identity.SUMMED, "Count": COUNTS}
"""What a class average adds up, because it is a count; everything else is averaged."""


@dataclass(frozen=True, eq=False)
class Scores:
    """`scores.HOTA` or `scores["HOTA"]`: a figure by its name, over the 19 overlaps its mean.

    `blocks` has them as they are, in the blocks HOTA, CLEAR, Identity and Count.
    """

    blocks: Mapping[str, Block]

    def __getitem__(self, name: str) -> float:
        value = self._value(name)
        return value if isinstance(value, int) else float(np.mean(value))  # counts stay whole

    def __getattr__(self, name: str) -> float:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def per_alpha(self, name: str) -> Floats:
        """[19] by overlap; `alphas` are the overlaps."""
        value = self._value(name)
        if np.ndim(value) == 0:
            raise KeyError(f"{name} does not depend on the overlap")
        return np.asarray(value, np.float64)

    @property
    def alphas(self) -> Floats:
        return ALPHAS

    def names(self) -> tuple[str, ...]:
        return tuple(name for block in self.blocks.values() for name in block)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Plain values: numbers, and lists by overlap."""
        return {title: {name: _plain(value) for name, value in block.items()} for title, block in self.blocks.items()}

    def _value(self, name: str) -> Any:
        for block in self.blocks.values():
            if name in block:
                return block[name]
        raise KeyError(f"there is no figure {name!r}{nearest(name, self.names())}")


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def score_prepared(given: Prepared, matches: clear.Matches) -> Scores:
    return Scores(
        {
            "HOTA": hota.hota(given),
            "CLEAR": clear.clear(given, matches),
            "Identity": identity.identity(given),
            "Count": {
                "Dets": len(given.results),
                "GT_Dets": len(given.truth),
                "IDs": len(given.result_ids),
                "GT_IDs": len(given.truth_ids),
                "Frames": given.truth.length,
            },
        }
    )


def combined(scores: Sequence[Scores]) -> Scores:
    """Of sequences; of classes it is the average by boxes."""

    def blocks(title: str) -> list[Block]:
        return [dict(one.blocks[title]) for one in scores]

    return Scores(
        {
            "HOTA": hota.combined_hota(blocks("HOTA")),
            "CLEAR": clear.combined_clear(blocks("CLEAR")),
            "Identity": identity.combined_identity(blocks("Identity")),
            "Count": {name: sum(block[name] for block in blocks("Count")) for name in COUNTS},
        }
    )


def class_average(scores: Sequence[Scores]) -> Scores:
    """Every class counts alike, however few boxes it has. Of no classes: as if nothing was there."""
    if not scores:
        return combined([])
    return Scores({title: _averaged(title, [one.blocks[title] for one in scores]) for title in scores[0].blocks})


def _averaged(title: str, blocks: Sequence[Block]) -> Block:
    names = COUNTS if title == "Count" else tuple(blocks[0])
    total = {name: sum(block[name] for block in blocks) for name in names}
    return {name: value if name in _ADDED[title] else value / len(blocks) for name, value in total.items()}
