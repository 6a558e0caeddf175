"""Requests that wait are detected together; what is wrong with one is its own; everything accepted is answered."""

import threading

import numpy as np
import pytest

from tests.patience import PATIENCE
from yolofast.serve.batcher import Batcher
from yolofast.serve.pictures import RefusedError
from yolofast.structures import Detections


class Network:
    """Sees as many objects as an image is wide, when it is let."""

    def __init__(self):
        self.free, self.batches = threading.Event(), []
        self.free.set()

    def __call__(self, pictures):
        assert self.free.wait(PATIENCE)
        self.batches.append(len(pictures))
        if any(one.shape[0] == 13 for one in pictures):
            raise ValueError("a number it does not like")
        return [
            Detections(np.zeros((one.shape[1], 4), "f4"), np.ones(one.shape[1], "f4"), np.zeros(one.shape[1], int))
            for one in pictures
        ]


def decode(content):
    height, width = map(int, content.split(b"x"))
    if not width:
        raise RefusedError(415, "no width")
    return np.zeros((height, width, 3), np.uint8)


@pytest.fixture
def made():
    network = Network()
    batcher = Batcher(network, decode, batch=4, waiting=12)
    yield network, batcher
    network.free.set()
    batcher.close()


def test_what_waits_is_detected_together_and_each_gets_its_own(made):
    network, batcher = made
    network.free.clear()
    futures = [batcher.submit(b"2x%d" % width) for width in range(1, 11)]
    network.free.set()
    for width, future in enumerate(futures, 1):
        seen = future.result(PATIENCE)
        assert (len(seen.detections), seen.width, seen.height) == (width, width, 2)
    assert sum(network.batches) == 10 and max(network.batches) == 4 == max(f.result().batch for f in futures)
    assert batcher.unfinished == 0


def test_a_lone_image_waits_for_company():
    network = Network()
    batcher = Batcher(network, decode, batch=2, waiting=12, wait_s=PATIENCE)
    futures = [batcher.submit(b"2x1"), batcher.submit(b"2x2")]
    assert [future.result(PATIENCE).batch for future in futures] == [2, 2]
    batcher.close()


def test_faults_are_those_of_their_own_request(made):
    _, batcher = made
    bad, good = batcher.submit(b"2x0"), batcher.submit(b"2x3")
    with pytest.raises(RefusedError, match="no width"):
        bad.result(PATIENCE)
    assert len(good.result(PATIENCE).detections) == 3
    fails = batcher.submit(b"13x1")
    with pytest.raises(ValueError, match="does not like"):
        fails.result(PATIENCE)
    assert len(batcher.submit(b"2x5").result(PATIENCE).detections) == 5, "the service lives on"


def test_more_than_may_wait_are_told_to_come_back_and_abandoned_ones_are_not_looked_at(made):
    network, batcher = made
    network.free.clear()
    futures = [batcher.submit(b"2x1") for _ in range(12)]
    with pytest.raises(RefusedError, match="12 images are waiting; come back") as refused:
        batcher.submit(b"2x1")
    assert refused.value.status == 503
    cancelled = sum(future.cancel() for future in futures)
    assert cancelled > 0, "those that are not yet decoded"
    network.free.set()
    batcher.close()
    assert sum(network.batches) == 12 - cancelled


def test_closing_answers_what_was_accepted(made):
    network, batcher = made
    network.free.clear()
    futures = [batcher.submit(b"2x1") for _ in range(9)]
    closing = threading.Thread(target=batcher.close)
    closing.start()
    while not batcher.closed:
        pass
    with pytest.raises(RefusedError, match="stopping"):
        batcher.submit(b"2x1")
    network.free.set()
    closing.join(PATIENCE)
    assert all(future.done() and len(future.result().detections) == 1 for future in futures)
    batcher.close()
