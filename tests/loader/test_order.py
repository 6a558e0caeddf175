import numpy as np
import pytest

from yolofast.errors import UserError
from yolofast.loader.order import EpochOrder


def order(images=10, **changes):
    return EpochOrder(images, **({"seed": 3, "shuffle": False, "batch_size": 4} | changes))


def images_of(epoch_order, epoch=0, start=0):
    return [list(batch.images) for batch in epoch_order.batches(epoch, start)]


def test_sequential_order_keeps_the_last_partial_batch():
    assert images_of(order(), epoch=7) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(order()) == 3


def test_the_last_partial_batch_may_be_dropped():
    assert images_of(order(drop_last=True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert len(order(drop_last=True)) == 2
    assert len(order(images=8)) == len(order(images=8, drop_last=True)) == 2


def test_shuffling_shows_every_image_once_and_differs_by_epoch_and_seed():
    def flat(seed, epoch):
        return np.concatenate(images_of(order(1000, shuffle=True, batch_size=8, seed=seed), epoch))

    assert sorted(flat(3, 0)) == list(range(1000))
    assert (flat(3, 0) == flat(3, 0)).all()
    for other in (flat(3, 1), flat(4, 0)):
        # Two independent permutations agree in one place on average; in ten almost never.
        assert (flat(3, 0) == other).sum() < 10


@pytest.mark.parametrize(("images", "repeats"), [(12, 2), (12, 3), (10, 3), (5, 8)])
def test_repeated_images_are_neighbours_and_all_have_been_there_after_so_many_epochs(images, repeats):
    repeated = order(images, shuffle=True, repeats=repeats)
    epochs = [np.concatenate(images_of(repeated, epoch)) for epoch in range(repeats)]
    assert [len(one) for one in epochs] == [images] * repeats, "an epoch costs what it did"
    stream = np.concatenate(epochs)
    assert (stream.reshape(images, repeats) == stream[::repeats, None]).all()
    assert sorted(stream[::repeats]) == list(range(images))
    once = np.concatenate(images_of(order(images, shuffle=True), 0))
    assert (stream[::repeats] == once).all(), "in the order of an epoch without"
    batches = list(repeated.batches(1))
    assert len({n for batch in batches for n in batch.positions.tolist()}) == images, "each with draws of its own"


def test_an_epoch_of_some_images_has_them_equally_often():
    few = order(10, shuffle=True, among=np.array([1, 4, 5, 8]))
    epochs = [np.concatenate(images_of(few, epoch)) for epoch in range(2)]
    assert [len(one) for one in epochs] == [10, 10] and len(few) == 3
    assert np.bincount(np.concatenate(epochs), minlength=10).tolist() == [0, 5, 0, 0, 5, 5, 0, 0, 5, 0]
    alone = order(10, among=np.array([2, 7]), repeats=2)
    assert images_of(alone)[:2] == [[2, 2, 7, 7], [2, 2, 7, 7]]


def test_given_images_are_taken_in_their_order():
    assert images_of(order(np.array([5, 3, 9]), batch_size=2)) == [[5, 3], [9]]


@pytest.mark.parametrize("world", [1, 2, 4])
@pytest.mark.parametrize("shuffle", [False, True])
def test_every_number_of_ranks_sees_the_same_batches(world, shuffle):
    alone = list(order(22, batch_size=8, shuffle=shuffle).batches(5))
    ranks = [list(order(22, batch_size=8, shuffle=shuffle, rank=r, world=world).batches(5)) for r in range(world)]
    assert {len(own) for own in ranks} == {3}
    for number, whole in enumerate(alone):
        parts = [own[number] for own in ranks]
        assert (np.concatenate([part.images for part in parts]) == whole.images).all()
        assert (np.concatenate([part.positions for part in parts]) == whole.positions).all()
        assert all(len(part.images) for part in parts)


def test_a_last_batch_with_fewer_images_than_ranks_is_left_out():
    assert len(order(9, world=4)) == 2
    assert len(order(9, world=1)) == 3


def test_groups_stay_whole():
    parts = [images_of(order(22, batch_size=8, multiple=4, rank=rank, world=2)) for rank in range(2)]
    assert parts == [[[0, 1, 2, 3], [8, 9, 10, 11]], [[4, 5, 6, 7], [12, 13, 14, 15]]], "4 are too few for two ranks"
    assert images_of(order(22, batch_size=8, multiple=4))[-1] == [16, 17, 18, 19], "and 2 too few for a group"


def test_an_epoch_can_start_at_any_batch():
    shuffled = order(50, shuffle=True)
    assert images_of(shuffled, 2, start=5) == images_of(shuffled, 2)[5:]
    assert [batch.number for batch in shuffled.batches(2, 5)] == list(range(5, 13))
    assert images_of(shuffled, 2, start=13) == []
    with pytest.raises(UserError, match="13 batches cannot start at batch 14"):
        images_of(shuffled, 2, start=14)


@pytest.mark.slow
def test_weights_draw_images_in_proportion():
    weights = np.array([0.0, 1.0, 3.0, 0.0])
    drawn = np.concatenate([images_of(order(4, weights=weights), epoch) for epoch in range(2000)], axis=None)
    counts = np.bincount(drawn, minlength=4)
    assert counts[0] == counts[3] == 0
    # 8,000 draws: the share of image 2 is 0.75 with a standard deviation of 0.005.
    assert abs(counts[2] / counts.sum() - 0.75) < 0.025


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 6, "world": 4}, "cannot be divided among 4 processes"),
        ({"batch_size": 6, "multiple": 4}, "multiple of 4"),
        ({"batch_size": 0}, "a batch of 0"),
        ({"rank": 2, "world": 2}, "rank 2 of 2"),
        ({"images": 0}, "0 images do not make a single batch"),
        ({"images": 3, "drop_last": True}, "at least 4 images"),
        ({"weights": np.zeros(10)}, "all 0"),
        ({"weights": np.full(10, np.nan)}, "not finite"),
        ({"weights": np.ones(3)}, r"shape \(3,\) for 10 images"),
    ],
)
def test_faults_are_named(changes, message):
    with pytest.raises(UserError, match=message):
        order(**changes)


def test_shuffled_batches_keep_their_images_together():
    """The partial batch stays the last: it is the one that may be too small for all ranks."""
    in_order = images_of(order(42))
    shuffled = order(42, shuffle_batches=True)
    for epoch in (0, 1):
        batches = list(shuffled.batches(epoch))
        assert [batch.number for batch in batches] == list(range(11))
        assert np.concatenate([batch.positions for batch in batches]).tolist() == list(range(42))
        assert [list(batch.images) for batch in batches] == [in_order[batch.block] for batch in batches]
        assert sorted(batch.block for batch in batches) == list(range(11)) and batches[-1].block == 10
    assert images_of(shuffled, 0) != images_of(shuffled, 1)
    assert images_of(shuffled, 1, start=4) == images_of(shuffled, 1)[4:]
    halves = [images_of(order(42, shuffle_batches=True, rank=rank, world=2), 3) for rank in (0, 1)]
    assert [a + b for a, b in zip(*halves, strict=True)] == images_of(shuffled, 3)
