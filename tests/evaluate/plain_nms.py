"""Non-maximum suppression as one would explain it: best first, one box at a time."""

import numpy as np


def plain_nms(predictions, conf, iou, *, multi_label, agnostic=False, most_candidates=30_000, most=300):
    """Per image rows x1, y1, x2, y2, score, label."""
    return [_one_image(rows, conf, iou, multi_label, agnostic, most_candidates, most) for rows in predictions]


def _one_image(rows, conf, iou, multi_label, agnostic, most_candidates, most):
    candidates = []
    for row in rows:
        centre, half = row[:2], row[2:4] / np.float32(2)
        if not row[4] > conf or not np.isfinite(row[:4]).all():
            continue
        scores = row[4:5] if len(row) == 6 else row[5:] * row[4]
        labels = range(len(scores)) if multi_label else [int(scores.argmax())]
        candidates += [(*(centre - half), *(centre + half), scores[c], c) for c in labels if scores[c] > conf]
    candidates.sort(key=lambda candidate: -candidate[4])  # stable: of equal scores the first stays first
    kept = []
    for candidate in candidates[:most_candidates]:
        rivals = [other for other in kept if agnostic or other[5] == candidate[5]]
        if all(_overlap(candidate, other) <= iou for other in rivals):
            kept.append(candidate)
    return np.array(kept[:most], np.float32).reshape(-1, 6)


def _overlap(a, b):
    width = max(min(a[2], b[2]) - max(a[0], b[0]), np.float32(0))
    height = max(min(a[3], b[3]) - max(a[1], b[1]), np.float32(0))
    union = _area(a) + _area(b) - width * height
    return width * height / union if union > 0 else 0


def _area(box):
    return max(box[2] - box[0], np.float32(0)) * max(box[3] - box[1], np.float32(0))
