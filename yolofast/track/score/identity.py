"""IDF1, IDP and IDR: identities of truth and results paired once for the whole sequence, so that most boxes agree."""

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from yolofast.errors import UserError
from yolofast.track.formats.sequence import Ints
from yolofast.track.score.hota import Block
from yolofast.track.score.prepare import Prepared

SUMMED = ("IDTP", "IDFN", "IDFP")
_MATCH = 0.5
_MOST_TOGETHER = 2**24
"""Identities of truth times those of results that are paired at once; each takes 16 bytes."""


def identity(given: Prepared) -> Block:
    agreed = _agreed(given)
    return with_ratios({"IDTP": agreed, "IDFN": len(given.truth) - agreed, "IDFP": len(given.results) - agreed})


def _agreed(given: Prepared) -> int:
    """Boxes that agree under the best pairing. Identities that never meet are solved apart: the sum is the same."""
    pairs = given.pairs.at_least(_MATCH)
    if not len(pairs.truth):
        return 0
    width = len(given.result_ids)
    key = given.truth_id[pairs.truth] * width + given.result_id[pairs.result]
    keys, counts = np.unique(key, return_counts=True)
    truth, result = keys // width, keys % width
    nodes = len(given.truth_ids) + width
    graph = coo_array((np.ones(len(keys)), (truth, result + len(given.truth_ids))), shape=(nodes, nodes))
    group = connected_components(graph, directed=False)[1][truth]
    order = np.argsort(group, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
    return sum(_best(truth[part], result[part], counts[part]) for part in parts)


def _best(truth: Ints, result: Ints, count: Ints) -> int:
    if len(count) == 1:
        return int(count[0])
    rows, row = np.unique(truth, return_inverse=True)
    columns, column = np.unique(result, return_inverse=True)
    if len(rows) == 1 or len(columns) == 1:
        return int(count.max())
    if len(rows) * len(columns) > _MOST_TOGETHER:
        what = f"{len(rows):,} identities of the truth and {len(columns):,} of the results all meet one another"
        raise UserError(what, fix="check that the files are those of a video, or divide it")
    matrix = np.zeros((len(rows), len(columns)))
    matrix[row, column] = count
    return int(matrix[linear_sum_assignment(matrix, maximize=True)].sum())


def with_ratios(block: Block) -> Block:
    agreed, missed, wrong = (block[name] for name in SUMMED)
    return block | {
        "IDR": agreed / max(1, agreed + missed),
        "IDP": agreed / max(1, agreed + wrong),
        "IDF1": agreed / max(1, agreed + 0.5 * missed + 0.5 * wrong),
    }


def combined_identity(blocks: list[Block]) -> Block:
    return with_ratios({name: sum(one[name] for one in blocks) for name in SUMMED})
