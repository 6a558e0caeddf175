import numpy as np
import pytest

from tests.loader.small_set import WAYS, made_up_loader, made_up_maker
from yolofast.errors import UserError
from yolofast.loader.order import EpochOrder
from yolofast.loader.quad import choose_enlarged, join_images, join_rows


def test_four_side_by_side():
    images = np.arange(4 * 3 * 2 * 3, dtype=np.uint8).reshape(4, 3, 2, 3)
    out = np.zeros((1, 3, 4, 6), np.uint8)
    join_images(images, np.array([-1]), out)
    assert np.array_equal(out[0, :, :2, :3], images[0])
    assert np.array_equal(out[0, :, :2, 3:], images[1])
    assert np.array_equal(out[0, :, 2:, :3], images[2])
    assert np.array_equal(out[0, :, 2:, 3:], images[3])


def test_one_enlarged():
    """Twice the size, linearly: between two pixels lie one and three quarters of the way, the border is repeated."""
    images = np.zeros((4, 3, 1, 2), np.uint8)
    images[2, 1] = (0, 100)
    out = np.zeros((1, 3, 2, 4), np.uint8)
    join_images(images, np.array([2]), out)
    assert out[0, 1].tolist() == [[0, 25, 75, 100]] * 2
    assert not out[0, [0, 2]].any()


def test_labels_follow():
    rows = np.array(
        [
            [0, 5, 0.5, 0.5, 0.2, 0.4],
            [1, 6, 0.5, 0.5, 0.2, 0.4],
            [2, 7, 0.5, 0.2, 0.2, 0.4],
            [3, 8, 0.1, 0.9, 0.2, 0.2],
            [4, 9, 0.5, 0.5, 0.2, 0.4],
            [6, 1, 0.3, 0.6, 0.2, 0.4],
        ],
        np.float32,
    )
    expected = [
        [0, 5, 0.25, 0.25, 0.1, 0.2],
        [0, 6, 0.75, 0.25, 0.1, 0.2],
        [0, 7, 0.25, 0.6, 0.1, 0.2],
        [0, 8, 0.55, 0.95, 0.1, 0.1],
        [1, 1, 0.3, 0.6, 0.2, 0.4],
    ]
    assert np.allclose(join_rows(rows, np.array([-1, 6])), expected)
    assert join_rows(np.zeros((0, 6), np.float32), np.array([-1, 6])).shape == (0, 6)


def test_half_of_the_groups_are_one_image_enlarged_and_each_of_the_four_equally_often():
    chosen = choose_enlarged(seed=1, epoch=2, positions=np.arange(16_000))
    member = (chosen - np.arange(0, 16_000, 4))[chosen >= 0]
    # 4,000 groups: standard deviations of 0.008 and 0.01.
    assert abs(len(member) / 4000 - 0.5) < 0.04
    assert np.abs(np.bincount(member, minlength=4) / len(member) - 0.25).max() < 0.05


def test_what_is_drawn_for_a_group_depends_on_its_position_alone():
    whole = choose_enlarged(1, 2, np.arange(32)) % 4
    part = choose_enlarged(1, 2, np.arange(16, 32)) % 4
    assert np.array_equal(whole[4:], part)


@pytest.mark.parametrize("options", WAYS)
def test_batches_hold_a_quarter_of_the_images_at_double_size(options):
    single = list(made_up_loader(images=22).epoch(1))
    with made_up_loader(images=22, maker=made_up_maker(22, quad=True), **options) as loader:
        joined = [(b.images.clone(), b.targets.valid.sum(1), b.sources) for b in loader.epoch(1)]
    assert [tuple(images.shape) for images, _, _ in joined] == [(2, 3, 128, 128), (2, 3, 128, 128), (1, 3, 128, 128)]
    positions = np.arange(22)
    for number, (images, boxes, sources) in enumerate(joined):
        count = 4 * len(images)
        enlarged = choose_enlarged(5, 1, positions[number * 8 : number * 8 + count])
        for group, chosen in enumerate(enlarged):
            members = range(4 * group, 4 * group + 4) if chosen < 0 else [chosen]
            assert boxes[group] == sum(int(single[number].targets.valid[m].sum()) for m in members)
            assert sources[group] == single[number].sources[members[0]]
            if chosen < 0:
                assert np.array_equal(images[group, :, :64, 64:], single[number].images[4 * group + 1])


def test_batches_must_be_groups_of_four():
    with pytest.raises(UserError, match="groups of 4"):
        EpochOrder(20, seed=0, shuffle=False, batch_size=6, multiple=4)
