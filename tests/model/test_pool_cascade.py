"""Pools built on one another give what the windows of the model file give."""

import pytest
import torch
from torch.nn import functional as F

from yolofast import build_model
from yolofast.model.blocks import SPPCSPC

ANCHORS = [[10, 13, 16, 30, 33, 23]]


def pools(*windows):
    layers = [[-1, 1, "Conv", [8, 3, 8]], *([-1 - i, 1, "SP", [k]] for i, k in enumerate(windows))]
    join = [[*range(-1, -len(windows) - 2, -1)], 1, "Concat", [1]]
    head = [[-1], 1, "Detect", ["nc", "anchors"]]
    yaml = {"nc": 2, "depth_multiple": 1.0, "width_multiple": 1.0, "anchors": ANCHORS}
    return build_model({**yaml, "backbone": layers, "head": [join, head]}).eval()


@pytest.mark.parametrize("windows", [(5, 9, 13), (5, 13), (3, 5, 9), (9, 5, 13), (5, 5), (7,)])
def test_windows_are_those_of_the_file(windows):
    model, images = pools(*windows), torch.rand(2, 3, 96, 64)
    joined = []
    model.model[len(windows) + 1].register_forward_hook(lambda module, inputs, output: joined.append(output))
    model(images)
    x = model.model[0](images)
    expected = [F.max_pool2d(x, k, 1, k // 2) for k in windows]
    assert torch.equal(joined[0], torch.cat([*expected[::-1], x], dim=1))


def test_the_published_windows_become_three_small_ones():
    model = build_model("yolov7-tiny")
    assert [m.kernel_size for m in model.model if type(m).__name__ == "SP"] == [5, 5, 5]


def test_spatial_pyramid():
    block, x = SPPCSPC(4, 4).eval(), torch.rand(1, 4, 20, 20)
    pooled = block.cv4(block.cv3(block.cv1(x)))
    maps = [pooled, *(F.max_pool2d(pooled, k, 1, k // 2) for k in (5, 9, 13))]
    expected = block.cv7(torch.cat((block.cv6(block.cv5(torch.cat(maps, 1))), block.cv2(x)), 1))
    assert torch.equal(block(x), expected)
