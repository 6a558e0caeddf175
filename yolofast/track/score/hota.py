"""HOTA: how well objects are found (DetA) and kept apart (AssA), over 19 overlaps from 0.05 to 0.95.

Results and truth are matched once for all overlaps: per frame, by overlap times how well the two identities agree over
the whole sequence. So DetA depends on identities a little: with perfect boxes and swapped ids it is below 1.
"""

from typing import Any

import numpy as np

from yolofast.track.formats.sequence import Floats, Ints
from yolofast.track.score.pairs import EPS
from yolofast.track.score.prepare import Prepared

Block = dict[str, Any]
"""The figures of one metric by TrackEval's names: numbers, or [19] where they depend on the overlap."""

ALPHAS: Floats = np.arange(0.05, 0.99, 0.05)
WEIGHTED = ("AssRe", "AssPr", "AssA")
"""Averaged over sequences by the number of matches."""
COUNTS = ("HOTA_TP", "HOTA_FN", "HOTA_FP")
_LEAST = 1e-10


def hota(given: Prepared) -> Block:
    truth, results = len(given.truth), len(given.results)
    pair, first, second = _identities(given)
    overlap = given.pairs.overlap
    alignment = _alignment(given, pair, first, second)
    weight = alignment[pair] * overlap
    matched = given.pairs.assigned(lambda _, own: weight[own])
    pair, overlap = pair[matched], overlap[matched]
    of_truth, of_result = given.truth_counts[first], given.result_counts[second]
    rows = [_at(overlap >= alpha - EPS, pair, overlap, of_truth, of_result) for alpha in ALPHAS]
    block: Block = {name: np.array([row[name] for row in rows], np.float64) for name in ("HOTA_TP", "LocA", *WEIGHTED)}
    block["HOTA_FN"], block["HOTA_FP"] = truth - block["HOTA_TP"], results - block["HOTA_TP"]
    return with_ratios(block)


def _identities(given: Prepared) -> tuple[Ints, Ints, Ints]:
    """For each pair of boxes its pair of identities; and the two of each pair of identities that ever meets."""
    width = max(1, len(given.result_ids))
    key = given.truth_id[given.pairs.truth] * width + given.result_id[given.pairs.result]
    keys, pair = np.unique(key, return_inverse=True)
    return pair, keys // width, keys % width


def _alignment(given: Prepared, pair: Ints, first: Ints, second: Ints) -> Floats:
    """Of each pair of identities: the share of their boxes that agree; an overlap counts relative to all it rivals."""
    pairs = given.pairs
    total = [
        np.bincount(side, pairs.overlap, minlength=count)
        for side, count in ((pairs.truth, len(given.truth)), (pairs.result, len(given.results)))
    ]
    share = pairs.overlap / (total[1][pairs.result] + total[0][pairs.truth] - pairs.overlap)
    together = np.bincount(pair, share, minlength=len(first))
    alignment: Floats = together / (given.truth_counts[first] + given.result_counts[second] - together)
    return alignment


def _at(found: Any, pair: Ints, overlap: Floats, of_truth: Ints, of_result: Ints) -> dict[str, float]:
    """At one overlap: `found` of the matches are true."""
    matches = np.bincount(pair[found], minlength=len(of_truth))
    count = int(matches.sum())
    denominators = {"AssA": of_truth + of_result - matches, "AssRe": of_truth, "AssPr": of_result}
    association = {
        name: float((matches * (matches / np.maximum(1, below))).sum() / max(1, count))
        for name, below in denominators.items()
    }
    return {"HOTA_TP": count, "LocA": max(_LEAST, float(overlap[found].sum())) / max(_LEAST, count), **association}


def with_ratios(block: Block) -> Block:
    """What follows from counts and associations."""
    found, missed, wrong = (block[name] for name in COUNTS)
    block["DetRe"] = found / np.maximum(1, found + missed)
    block["DetPr"] = found / np.maximum(1, found + wrong)
    block["DetA"] = found / np.maximum(1, found + missed + wrong)
    block["HOTA"] = np.sqrt(block["DetA"] * block["AssA"])
    block["OWTA"] = np.sqrt(block["DetRe"] * block["AssA"])
    block["HOTA(0)"], block["LocA(0)"] = float(block["HOTA"][0]), float(block["LocA"][0])
    block["HOTALocA(0)"] = block["HOTA(0)"] * block["LocA(0)"]
    return block


def combined_hota(blocks: list[Block]) -> Block:
    """Of sequences, or of classes by their boxes: counts are added, associations weighted by matches."""
    none = np.zeros(len(ALPHAS), np.int64)  # of classes of which nothing is there
    block: Block = {name: sum((one[name] for one in blocks), none) for name in COUNTS}
    found = block["HOTA_TP"]
    for name in WEIGHTED:
        block[name] = sum(one[name] * one["HOTA_TP"] for one in blocks) / np.maximum(1.0, found)
    place = sum(one["LocA"] * one["HOTA_TP"] for one in blocks)
    block["LocA"] = np.maximum(_LEAST, place) / np.maximum(_LEAST, found)
    return with_ratios(block)
