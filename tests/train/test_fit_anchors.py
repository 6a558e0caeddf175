"""Anchors are replaced before a run only where that helps, and stay with the weights."""

import numpy as np
import pytest
import torch

from tests.loader.small_set import made_up_index, random_sizes
from yolofast.detect.networks import starting_network
from yolofast.image_index import ImageIndex
from yolofast.model.autoanchor import anchor_fit
from yolofast.model.network import build_model
from yolofast.train.data import fit_anchors


@pytest.fixture
def model():
    return build_model("yolov7-tiny", 4)


def index_with(shares):
    """100 square images with three boxes each, of these shares of the image's side."""
    index = made_up_index(np.full((100, 2), 100))
    boxes = index.boxes.copy()
    boxes[:, 2:] = np.random.default_rng(0).uniform(*shares, (300, 2))
    return ImageIndex(**{**index.__dict__, "boxes": boxes})


def fitted(model, index, size=320):
    said = []
    fit_anchors(model, index, size, 4.0, 0, said.append)
    (line,) = said
    return line


@pytest.mark.slow
def test_anchors_that_suit_the_boxes_stay(model):
    before = model.anchors_px.clone()
    assert "kept" in fitted(model, index_with((0.1, 0.5)))
    assert torch.equal(model.anchors_px, before)


@pytest.mark.slow
def test_anchors_far_too_large_are_replaced_in_both_copies(model):
    line = fitted(model, index_with((0.005, 0.02)))
    assert "fitted" in line and "--noautoanchor" in line
    pixels = model.head.anchors_px
    assert pixels.max() < 320 * 0.03
    strides = torch.tensor(model.layout.strides).view(-1, 1, 1)
    torch.testing.assert_close(model.head.anchors, pixels / strides)
    areas = pixels.prod(-1).flatten()
    assert torch.equal(areas, areas.sort().values), "small ones on the fine level"


@pytest.mark.slow
def test_every_rank_comes_to_the_same():
    first, second = build_model("yolov7-tiny", 4), build_model("yolov7-tiny", 4)
    for model in (first, second):
        fitted(model, index_with((0.005, 0.02)))
    assert torch.equal(first.anchors_px, second.anchors_px)


@pytest.mark.slow
def test_a_number_of_anchors_is_fitted_whatever_it_starts_from():
    model = starting_network("yolov7-tiny", "", 4, "", pytest.fail, anchors=2).model
    assert model.anchors_px.shape == (3, 2, 2)
    index = index_with((0.1, 0.5))
    said = []
    fit_anchors(model, index, 320, 4.0, 0, said.append, always=True)
    assert said == ["anchors: 6, fitted to the boxes"]
    assert (model.anchors_px > 20).all() and (model.anchors_px < 180).all()
    assert anchor_fit(index.boxes[:, 2:] * 320, model.anchors_px.numpy()).bpr == 1


@pytest.mark.slow
def test_without_boxes_nothing_happens(model):
    index = made_up_index(random_sizes(3), boxes_per_image=0)
    before = model.anchors_px.clone()
    fit_anchors(model, index, 320, 4.0, 0, pytest.fail)
    assert torch.equal(model.anchors_px, before)
