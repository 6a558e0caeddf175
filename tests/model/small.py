"""A network of every kind, small enough for any test: two levels, strides 8 and 16, two anchors, three classes."""

import torch

from yolofast import build_model
from yolofast.model import heads

SMALL = {
    "nc": 3,
    "depth_multiple": 1.0,
    "width_multiple": 1.0,
    "anchors": [[10, 13, 16, 30], [30, 61, 62, 45]],
    "backbone": [
        [-1, 1, "Conv", [16, 3, 2, "None", 1, "nn.LeakyReLU(0.1)"]],
        [-1, 1, "Conv", [16, 3, 2]],
        [-1, 1, "MP", []],
        [-1, 1, "Conv", [32, 3, 2]],
    ],
    "head": [
        [2, 1, "RepConv", [16, 3, 1]],
        [3, 1, "RepConv", [48, 3, 1]],
        [[4, 5], 1, "IDetect", ["nc", "anchors"]],
    ],
}
GROUPS = {
    "nc": 3,
    "heads": 2,
    "grouping": "test",
    "head_assignments": {"head_0": {"classes": [2, 0]}, "head_1": {"classes": [1]}},
}


def small_cfg(head):
    layers = SMALL["head"][:-1]
    if head == "IAuxDetect":
        layers = [*layers, [2, 1, "Conv", [24, 3, 1]], [3, 1, "Conv", [40, 3, 1]]]
        sources = [4, 5, 6, 7]
    else:
        sources = [4, 5]
    return {**SMALL, "head": [*layers, [sources, 1, head, ["nc", "anchors"]]]}


def small(head="IDetect", full_head=False, prior=True):
    """`prior=False` leaves out the starting bias, to see what it adds; both start from the same random numbers."""
    torch.manual_seed(0)
    groups = {**GROUPS, "full_head": full_head} if head.startswith("Multi") else None
    if prior:
        return build_model(small_cfg(head), head_config=groups)
    add_prior = heads.add_prior
    heads.add_prior = lambda *args: None
    try:
        return build_model(small_cfg(head), head_config=groups)
    finally:
        heads.add_prior = add_prior
