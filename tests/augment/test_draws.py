"""The generator against published vectors, and draws that depend on nothing but their name."""

import numpy as np
import pytest
from scipy import stats

from yolofast.augment.draws import DrawTable, beta_8_8, between, philox, uniform, whole

# Known answers of Philox4x32-10 as published with Random123: counter, key, result.
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text):
    return [np.array([int(word, 16)], np.uint64) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_known_answers(counter, key, result):
    k0, k1 = (word[0] for word in words(key))
    assert philox(words(counter), (k0, k1)) == words(result)


def test_draws_are_the_words_of_seed_epoch_position_and_stream():
    seed, epoch, position, stream = 0x299F31D0A4093822, 0x13198A2E, 0x85A308D3, 0x03707344
    expected = philox(words("00000001 85a308d3 13198a2e 03707344"), (np.uint64(0xA4093822), np.uint64(0x299F31D0)))
    draws = uniform(seed, epoch, [position], 8, stream)[0, 4:]
    assert draws.tolist() == [int(word[0]) / 2**32 for word in expected]


def test_the_batch_does_not_matter():
    together = uniform(7, 3, np.arange(1000), 50)
    for position in (0, 1, 17, 999):
        assert np.array_equal(uniform(7, 3, [position], 50)[0], together[position])
    shuffled = np.random.default_rng(0).permutation(1000)
    assert np.array_equal(uniform(7, 3, shuffled, 50), together[shuffled])


def test_asking_for_more_changes_nothing_of_the_first():
    assert np.array_equal(uniform(7, 3, [5], 50)[:, :3], uniform(7, 3, [5], 3))


def test_every_part_of_the_name_counts():
    draws = [
        uniform(*name) for name in [(0, 0, [0], 4), (1, 0, [0], 4), (2**40, 0, [0], 4), (0, 1, [0], 4), (0, 0, [1], 4)]
    ]
    draws.append(uniform(0, 0, [0], 4, stream=1))
    assert len({tuple(draw[0]) for draw in draws}) == 6


def test_uniform_and_without_correlation():
    draws = uniform(1, 2, np.arange(4000), 12)
    assert stats.kstest(draws.ravel(), "uniform").pvalue > 0.01
    for other in (uniform(1, 3, np.arange(4000), 12), uniform(1, 2, np.arange(4000), 12, stream=1), draws[::-1]):
        assert abs(np.corrcoef(draws.ravel(), other.ravel())[0, 1]) < 0.02
    off_diagonal = np.corrcoef(draws.T)[~np.eye(12, dtype=bool)]
    assert np.abs(off_diagonal).max() < 0.06


def test_beta():
    draws = beta_8_8(uniform(0, 0, np.arange(5000), 15))
    assert stats.kstest(draws, stats.beta(8, 8).cdf).pvalue > 0.01
    assert stats.kstest(draws, stats.beta(7, 7).cdf).pvalue < 0.01, "the test can tell neighbours apart"


def test_ranges():
    edge = np.array([0.0, 0.5, 1 - 2.0**-32])
    assert between(-2, 4, edge).tolist() == pytest.approx([-2, 1, 4])
    assert between(-2, 4, edge).max() < 4
    assert whole(3, edge).tolist() == [0, 1, 2]
    assert whole([1, 2, 1000], edge).tolist() == [0, 1, 999]


def test_a_table_hands_out_every_column_once():
    table = DrawTable(np.arange(20.0).reshape(2, 10))
    assert table.take(2, 2).tolist() == [[[0, 1], [2, 3]], [[10, 11], [12, 13]]]
    assert table.take(1).tolist() == [[4], [14]]
    with pytest.raises(AssertionError, match="more draws"):
        table.take(6)
