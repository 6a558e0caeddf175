"""CLEAR: MOTA, MOTP, identity switches, fragments, mostly tracked and lost objects, at an overlap of 0.5.

A match of the last frame is kept while it overlaps enough; else overlap decides. Frames without truth or without
results are passed over: they cost false positives or misses, and neither break continuity nor continue it.
"""

import math
from dataclasses import dataclass

import numpy as np

from yolofast.track.formats.sequence import Floats, Ints
from yolofast.track.score.hota import Block
from yolofast.track.score.pairs import EPS, Pairs
from yolofast.track.score.prepare import Prepared

SUMMED = ("CLR_TP", "CLR_FN", "CLR_FP", "IDSW", "MT", "PT", "ML", "Frag", "CLR_Frames")
_RATIOS = ("MOTA", "MOTP", "MODA", "CLR_Re", "CLR_Pr", "MTR", "PTR", "MLR", "sMOTA", "CLR_F1", "FP_per_frame", "MOTAL")
_MATCH = 0.5 - EPS
_KEPT = 1000.0
"""Weight of having been matched in the last frame, beside overlaps, which are at most 1."""
_MOSTLY, _PARTLY = 0.8, 0.2


@dataclass(frozen=True, eq=False)
class Matches:
    """Matched boxes sorted by identity of the truth, then by frame: places in truth and results, and the overlap."""

    truth: Ints
    result: Ints
    overlap: Floats
    again: Ints
    """Places in these of matches that follow another of the same identity."""
    switched: Ints
    """Those of them by another result."""
    broken: Ints
    """Those of them before which the object was not matched for a while."""


def match(given: Prepared) -> Matches:
    pairs = given.pairs.at_least(_MATCH)
    chosen = _chosen(given, pairs)
    chosen = chosen[np.argsort(given.truth_id[pairs.truth[chosen]], kind="stable")]
    truth, result = pairs.truth[chosen], pairs.result[chosen]
    identity, other = given.truth_id[truth], given.result_id[result]
    turn = _turns(given)[given.truth.frame[truth] - 1]
    again = np.flatnonzero(np.diff(identity) == 0) + 1
    switched = again[other[again] != other[again - 1]]
    broken = again[turn[again] != turn[again - 1] + 1]
    return Matches(truth, result, pairs.overlap[chosen], again, switched, broken)


def _turns(given: Prepared) -> Ints:
    """[length] numbers of those frames that have truth and results; the others are passed over."""
    both = (np.diff(given.pairs.truth_starts) > 0) & (np.diff(given.pairs.result_starts) > 0)
    return np.cumsum(both)


def _chosen(given: Prepared, pairs: Pairs) -> Ints:
    """Places of the pairs that match. Only frames in doubt look at the frame before them."""
    chosen = pairs.clear()
    turns = _turns(given)
    evaluated = np.searchsorted(turns, np.arange(1, turns[-1] + 1 if len(turns) else 1))
    for frame in pairs.in_doubt.tolist():
        own = slice(int(pairs.starts[frame]), int(pairs.starts[frame + 1]))
        weight = pairs.overlap[own]
        if turns[frame] > 1:
            last = evaluated[turns[frame] - 2]
            before = np.arange(pairs.starts[last], pairs.starts[last + 1])
            was = np.full(len(given.truth_ids), -1)
            before = before[chosen[before]]
            was[given.truth_id[pairs.truth[before]]] = given.result_id[pairs.result[before]]
            kept = was[given.truth_id[pairs.truth[own]]] == given.result_id[pairs.result[own]]
            weight = _KEPT * kept + weight
        chosen[own] = pairs.solved(frame, own, weight)
    return np.flatnonzero(chosen)


def clear(given: Prepared, matches: Matches) -> Block:
    truth, results = len(given.truth), len(given.results)
    objects = len(given.truth_ids)
    block: Block = dict.fromkeys((*SUMMED, *_RATIOS), 0) | {"MOTP_sum": 0.0}
    if not results or not truth:  # nothing was evaluated: no ratio but this one
        return block | {"CLR_FN": truth, "CLR_FP": results, "ML": objects, "MLR": 1.0}
    found = len(matches.truth)
    share = np.bincount(given.truth_id[matches.truth], minlength=objects) / given.truth_counts
    mostly, partly = int((share > _MOSTLY).sum()), int((share >= _PARTLY).sum())
    block |= {
        "CLR_TP": found,
        "CLR_FN": truth - found,
        "CLR_FP": results - found,
        "IDSW": len(matches.switched),
        "MT": mostly,
        "PT": partly - mostly,
        "ML": objects - partly,
        "Frag": len(matches.broken),
        "CLR_Frames": given.truth.length,
        "MOTP_sum": float(matches.overlap.sum()),
    }
    return with_ratios(block)


def with_ratios(block: Block) -> Block:
    found, missed, wrong, switches = (block[name] for name in ("CLR_TP", "CLR_FN", "CLR_FP", "IDSW"))
    objects, boxes = max(1, block["MT"] + block["PT"] + block["ML"]), max(1, found + missed)
    logarithm = math.log10(switches) if switches > 0 else switches
    return block | {
        "MTR": block["MT"] / objects,
        "PTR": block["PT"] / objects,
        "MLR": block["ML"] / objects,
        "CLR_Re": found / boxes,
        "CLR_Pr": found / max(1, found + wrong),
        "MODA": (found - wrong) / boxes,
        "MOTA": (found - wrong - switches) / boxes,
        "MOTP": block["MOTP_sum"] / max(1, found),
        "sMOTA": (block["MOTP_sum"] - wrong - switches) / boxes,
        "CLR_F1": found / max(1, found + 0.5 * missed + 0.5 * wrong),
        "FP_per_frame": wrong / max(1, block["CLR_Frames"]),
        "MOTAL": (found - wrong - logarithm) / boxes,
    }


def combined_clear(blocks: list[Block]) -> Block:
    return with_ratios({name: sum(one[name] for one in blocks) for name in (*SUMMED, "MOTP_sum")})
