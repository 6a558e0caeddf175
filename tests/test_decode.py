import math

import pytest
import torch

from yolofast.decoding import decode
from yolofast.raw_maps import decode_bins
from yolofast.structures import HeadLayout


class Reader:
    """The least a model must tell for its maps to be read."""

    def __init__(self, layout, anchors_px, class_columns=None):
        self.layout, self.anchors_px, self.class_columns = layout, torch.tensor(anchors_px), class_columns


def logit(p):
    return math.log(p / (1 - p))


def test_one_cell_by_hand():
    layout = HeadLayout(kind="anchor", nc=1, strides=(8,), anchors_per_cell=1)
    raw = torch.zeros(1, 1, 2, 3, 6)
    raw[0, 0, 1, 2] = torch.tensor([logit(0.75), logit(0.5), logit(0.25), 0.0, logit(0.9), logit(0.8)])
    row = decode([raw], Reader(layout, [[[10.0, 20.0]]]))[0, 1 * 3 + 2]
    # x = (2·0.75 − 0.5 + 2)·8, y = (1 − 0.5 + 1)·8, w = (2·0.25)²·10, h = 1²·20
    torch.testing.assert_close(row, torch.tensor([24.0, 12.0, 2.5, 20.0, 0.9, 0.8]))


def test_rows_run_level_anchor_y_x():
    layout = HeadLayout(kind="anchor", nc=1, strides=(8, 16), anchors_per_cell=2)
    raw = [torch.zeros(1, 2, 4, 4, 6), torch.zeros(1, 2, 2, 2, 6)]
    out = decode(raw, Reader(layout, [[[1.0, 1.0], [2.0, 2.0]], [[3.0, 3.0], [4.0, 4.0]]]))
    assert out.shape == (1, 40, 6)
    assert out[0, :, 2].tolist() == [1.0] * 16 + [2.0] * 16 + [3.0] * 4 + [4.0] * 4
    assert out[0, :5, 0].tolist() == [4.0, 12.0, 20.0, 28.0, 4.0]
    assert out[0, :5, 1].tolist() == [4.0, 4.0, 4.0, 4.0, 12.0]


def test_auxiliary_maps_are_ignored():
    layout = HeadLayout(kind="anchor", nc=1, strides=(8,), anchors_per_cell=1)
    lead, aux = torch.zeros(1, 1, 2, 2, 6), torch.ones(1, 1, 2, 2, 6)
    reader = Reader(layout, [[[1.0, 1.0]]])
    assert torch.equal(decode([lead, aux], reader), decode([lead], reader))


def test_half_precision_maps_decode_in_float32():
    layout = HeadLayout(kind="anchor", nc=1, strides=(32,), anchors_per_cell=1)
    raw = torch.zeros(1, 1, 1, 20, 6, dtype=torch.bfloat16)
    out = decode([raw], Reader(layout, [[[1.0, 1.0]]]))
    assert out.dtype == torch.float32
    assert out[0, -1, 0].item() == 19.5 * 32


def test_bins():
    sides = torch.full((2, 22), -5.0)
    sides[0, 1 + 10] = 5.0
    sides[0, 0] = 0.0  # no offset: the centre of bin 10 of 21 on [0, 4]
    sides[1, 1 + 20] = 5.0
    sides[1, 0] = 20.0  # the whole step beyond the last centre: clipped at 4
    assert decode_bins(sides).tolist() == [pytest.approx(10.5 * 4 / 21), 4.0]


def test_bin_layout():
    layout = HeadLayout(kind="bin", nc=2, strides=(8,), anchors_per_cell=1, bins=21)
    raw = torch.zeros(1, 1, 1, 1, 2 + 44 + 1 + 2)
    raw[..., 2 + 1 + 5] = 9.0  # width in bin 5
    raw[..., 2 + 22 + 1 + 7] = 9.0  # height in bin 7
    raw[..., -3:] = torch.tensor([1.0, 2.0, 3.0])
    out = decode([raw], Reader(layout, [[[10.0, 100.0]]]))[0, 0]
    step = 4 / 21
    assert out[2:4].tolist() == [pytest.approx(5.5 * step * 10), pytest.approx(7.5 * step * 100)]
    torch.testing.assert_close(out[4:], torch.tensor([1.0, 2.0, 3.0]).sigmoid())


def test_several_heads_fill_their_own_columns():
    layout = HeadLayout(kind="anchor", nc=3, strides=(8,), anchors_per_cell=1, head_classes=((2, 0), (1,)))
    columns = torch.tensor([[1, 2, 0], [1, 0, 1]])
    first, second = torch.full((1, 1, 1, 1, 7), 2.0), torch.full((1, 1, 1, 1, 6), 3.0)
    first[..., 5], first[..., 6] = 4.0, 5.0  # classes 2 and 0
    out = decode([first, second], Reader(layout, [[[1.0, 1.0]]], columns))
    expected = torch.tensor([[5.0, -1e9, 4.0], [-1e9, 3.0, -1e9]]).sigmoid()
    torch.testing.assert_close(out[0, :, 5:], expected)
