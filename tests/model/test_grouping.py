"""Grouping generators: planted structure comes back, each formula agrees with numbers worked out by hand."""

import sys

import numpy as np
import pytest

from tests.sample_data import sample
from yolofast.dataset.split import read_split
from yolofast.errors import UserError
from yolofast.model.grouping import (
    LabelStatistics,
    balance_clusters,
    class_similarity,
    cooccurrence,
    geometry_grouping,
    hybrid_grouping,
    mean_log_ratio,
)
from yolofast.model.head_config import parse_head_config, read_head_config


def statistics(rows, nc):
    """rows of (image, class, width, height)"""
    table = np.array(rows, dtype=np.float64).reshape(-1, 4)
    ids = table[:, :2].astype(np.int64)
    return LabelStatistics(image_index=ids[:, 0], class_id=ids[:, 1], box_wh_px=table[:, 2:], nc=nc)


def planted_shapes(ratios, boxes_per_class=30):
    """Each class has boxes around its own width / height, 100 px high, all in images of their own."""
    rng = np.random.default_rng(3)
    return statistics(
        [
            (class_id * 1000 + i, class_id, 100 * ratio * np.exp(rng.normal(0, 0.02)), 100)
            for class_id, ratio in enumerate(ratios)
            for i in range(boxes_per_class)
        ],
        len(ratios),
    )


def members(config):
    return {frozenset(head.classes) for head in config.heads}


def test_mean_log_ratio_by_hand():
    rows = [
        (0, 0, 20, 10),  # ln 2
        (0, 0, 10, 20),  # -ln 2: the mean of logarithms is 0, that of ratios would be 1.25
        (0, 1, 40, 10),  # ln 4
        (0, 1, 1, 50),  # one pixel wide: its ratio is mostly rounding, left out
    ]
    np.testing.assert_allclose(mean_log_ratio(statistics(rows, 3)), [0, np.log(4), 0], atol=1e-12)  # class 2 is empty


def test_cooccurrence_by_hand():
    # image 7: classes 0 (twice) and 1; image 9: class 0; class 2 nowhere
    jaccard = cooccurrence(statistics([(7, 0, 9, 9), (7, 0, 9, 9), (7, 1, 9, 9), (9, 0, 9, 9)], 3))
    np.testing.assert_allclose(jaccard, [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 0]])


def test_similarity_by_hand_and_weights_are_normalised():
    labels = statistics([(0, 0, 20, 10), (0, 1, 10, 10), (1, 1, 10, 10)], 2)
    expected = 0.25 * np.exp(-2 * np.log(2) ** 2) + 0.75 * 0.5
    similarity = class_similarity(labels, alpha=1, beta=3)
    np.testing.assert_allclose(similarity, [[1, expected], [expected, 1]])


@pytest.mark.slow
def test_geometry_recovers_planted_shapes_tall_first():
    config = geometry_grouping(planted_shapes([2.0, 0.5, 1.0, 0.52, 1.95, 1.02, 4.0, 3.9]))
    assert [head.classes for head in config.heads] == [(1, 3), (2, 5), (0, 4), (6, 7)]
    assert [head.name for head in config.heads] == ["tall", "square", "wide-1", "wide-2"]
    assert {head.weight for head in config.heads} == {1.0}
    assert parse_head_config(config.to_dict()) == config


def test_geometry_puts_a_class_without_boxes_with_the_square_ones():
    labels = planted_shapes([0.3, 1.0, 3.0, 9.0])
    wider = LabelStatistics(
        image_index=labels.image_index, class_id=labels.class_id, box_wh_px=labels.box_wh_px, nc=labels.nc + 1
    )
    assert geometry_grouping(wider).heads[1].classes == (1, 4)


def test_hybrid_recovers_classes_seen_together():
    rng = np.random.default_rng(1)
    groups = [(0, 5, 10), (1, 6, 11), (2, 7, 8), (3, 4, 9)]
    rows = [(image, c, 30, 30) for image in range(200) for c in groups[image % 4] if rng.random() < 0.9]
    config = hybrid_grouping(statistics(rows, 12))
    assert members(config) == {frozenset(group) for group in groups}
    assert [head.classes[0] for head in config.heads] == [0, 1, 2, 3]  # heads in the order of their first class


def test_hybrid_recovers_planted_shapes():
    config = hybrid_grouping(planted_shapes([0.1, 0.11, 1.0, 1.1, 9.0, 9.5]), heads=3)
    assert members(config) == {frozenset({0, 1}), frozenset({2, 3}), frozenset({4, 5})}


@pytest.mark.parametrize("heads", [1, 3])
def test_hybrid_with_one_head_or_as_many_as_classes(heads):
    assert len(hybrid_grouping(planted_shapes([0.2, 1.0, 3.0]), heads=heads).heads) == heads


def test_balancing_moves_the_most_similar_class_until_within_five():
    # 20 classes, 2 heads: average 10, so 18/2 is outside ±5 on both sides. Class i resembles the small cluster
    # {18, 19} more the larger i is, so 17, 16 and 15 move; at 15/5 neither side is beyond 5 and it stops.
    cluster = np.array([0] * 18 + [1] * 2)
    similarity = np.repeat(np.arange(20)[:, None] / 20, 20, axis=1)
    balanced = balance_clusters(cluster, similarity, heads=2)
    assert balanced.tolist() == [0] * 15 + [1] * 5
    assert cluster.tolist() == [0] * 18 + [1] * 2  # the argument is not changed


def test_a_large_cluster_stays_when_none_is_too_small():
    # 30 classes, 5 heads: average 6; 14 is over 11, but no head of 4 is under 1.
    cluster = np.array([0] * 14 + [1] * 4 + [2] * 4 + [3] * 4 + [4] * 4)
    assert balance_clusters(cluster, np.eye(30), heads=5).tolist() == cluster.tolist()


@pytest.mark.parametrize("generate", [geometry_grouping, hybrid_grouping])
def test_same_seed_same_grouping(generate):
    rng = np.random.default_rng(0)
    rows = [(rng.integers(40), rng.integers(30), *rng.uniform(2, 100, 2)) for _ in range(400)]
    assert generate(statistics(rows, 30)) == generate(statistics(rows, 30))


@pytest.mark.parametrize("generate", [geometry_grouping, hybrid_grouping])
def test_more_heads_than_classes_is_refused(generate):
    with pytest.raises(UserError, match="3 classes cannot be split into 4 heads"):
        generate(planted_shapes([1, 2, 3]))


def test_too_few_distinct_shapes_is_refused():
    with pytest.raises(UserError, match="1 distinct"):
        geometry_grouping(statistics([], 5))  # all empty, all square


@pytest.mark.parametrize(("alpha", "beta"), [(0, 0), (-1, 2), (float("nan"), 1), (float("inf"), 1)])
def test_bad_weights_are_refused(alpha, beta):
    with pytest.raises(UserError, match="alpha and beta"):
        hybrid_grouping(planted_shapes([1, 2, 3, 4]), alpha=alpha, beta=beta)


@pytest.mark.parametrize("row", [(0, 5, 9, 9), (0, -1, 9, 9), (0, 0, np.inf, 9)])
def test_bad_arrays_are_refused(row):
    with pytest.raises(UserError):
        statistics([row], 5)


def test_missing_scikit_learn_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    with pytest.raises(UserError, match=r"pip install 'yolofast\[grouping\]'"):
        geometry_grouping(planted_shapes([0.2, 1, 3, 9]))


def test_packaged_geometry_is_what_its_header_says():
    index = read_split(sample("coco200/data.yaml"), cache=False)
    image_index = index.image_of_box()
    boxes = LabelStatistics(
        image_index=image_index,
        class_id=index.labels,
        box_wh_px=index.boxes[:, 2:] * index.sizes[image_index],
        nc=len(index.names),
    )
    assert geometry_grouping(boxes) == read_head_config("geometry")
