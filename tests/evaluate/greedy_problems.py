"""Candidates that are hard to suppress, and the plain way to do it."""

import numpy as np
import torch

from yolofast.evaluate.candidates import Candidates


def candidates(images):
    """From (boxes, labels) per image, best first; scores fall."""
    longest = max([1, *(len(labels) for _, labels in images)])
    boxes, labels = np.full((len(images), longest, 4), 7e8, np.float32), np.zeros((len(images), longest), np.int64)
    for b, (own, own_labels) in enumerate(images):
        boxes[b, : len(own)], labels[b, : len(own)] = own, own_labels
    scores = np.linspace(1, 0.01, longest, dtype=np.float32)[None].repeat(len(images), 0)
    counts = torch.tensor([len(own_labels) for _, own_labels in images])
    return Candidates(torch.from_numpy(boxes), torch.from_numpy(scores), torch.from_numpy(labels), counts)


def problems():
    """By name: images of different lengths, none of them a multiple of a block."""
    rng = np.random.default_rng(0)

    def coarse(n, classes, places=12):
        """On so coarse a grid that boxes, and overlaps at the threshold, are often equal."""
        corner = rng.integers(0, places, (n, 2)) * 10
        return np.concatenate((corner, corner + rng.integers(0, 4, (n, 2)) * 10), 1), rng.integers(0, classes, n)

    def random(n, classes):
        corner = rng.random((n, 2)) * 300
        return np.concatenate((corner, corner + rng.random((n, 2)) * 100), 1), rng.integers(0, classes, n)

    chain = np.array([(10.0 * i, 0, 10.0 * i + 50, 50) for i in range(150)])
    spot = np.tile((10.0, 10, 60, 60), (130, 1))
    largest = np.array([(-3e38, -3e38, 3e38, 3e38), (0, 0, 3e38, 3e38), (np.inf, 0, np.inf, 9), (5, 5, 1, 1)] * 20)
    return {
        "coarse": [coarse(170, 3), coarse(65, 1), coarse(64, 2, places=3)],
        "random": [random(200, 2), random(3, 1)],
        "chain, one spot": [(chain, np.zeros(150, int)), (spot, np.arange(130) % 3), (chain[::-1], np.arange(150) % 2)],
        "empty and too large": [(np.zeros((0, 4)), np.zeros(0, int)), (largest, np.zeros(80, int)), coarse(1, 1)],
    }


def plain_greedy(found, threshold, agnostic, most):
    """Per image the kept candidates, one box at a time."""
    boxes, labels = found.boxes.numpy(), found.labels.numpy()
    result = []
    with np.errstate(all="ignore"):
        for b, count in enumerate(found.counts.tolist()):
            kept = []
            for one in range(count):
                rivals = [k for k in kept if agnostic or labels[b, k] == labels[b, one]]
                if len(kept) < most and not any(_overlap(boxes[b, k], boxes[b, one]) > threshold for k in rivals):
                    kept.append(one)
            result.append(kept)
    return result


def _overlap(a, b):
    zero = np.float32(0)
    width = np.maximum(np.minimum(a[2], b[2]) - np.maximum(a[0], b[0]), zero)
    height = np.maximum(np.minimum(a[3], b[3]) - np.maximum(a[1], b[1]), zero)
    area = [np.maximum(x[2] - x[0], zero) * np.maximum(x[3] - x[1], zero) for x in (a, b)]
    return width * height / np.maximum(area[0] + area[1] - width * height, np.float32(1e-30))
