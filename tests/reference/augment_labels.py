"""What a plan does to boxes, box by box in plain loops, polygons by a thousand points along their outline."""

from dataclasses import dataclass

import numpy as np

POINTS = 1000


@dataclass
class Candidate:
    """A box of a tile after the transform, and whether it is kept."""

    image: int
    view: int
    label: int
    corners: tuple
    keep: bool
    tolerance: float
    """How far the corners may be off, in pixels: the largest gap between two of the thousand points."""
    doubtful: bool
    """Whether an error of that size could change the decision."""


def candidates(plan, index, stored_sizes):
    """Of all boxes in the order of images, views, tiles and labels."""
    result = []
    for b, v, t in np.argwhere(plan.source_BVT >= 0):
        source = int(plan.source_BVT[b, v, t])
        own = [box for box in range(index.starts[source], index.starts[source + 1]) if not index.crowd[box]]
        result += [_follow(plan, index, stored_sizes[source], int(b), int(v), int(t), box) for box in own]
    return result


def _follow(plan, index, size, b, v, t, box):
    width, height = (float(side) for side in plan.canvas_BV2[b, v])
    left, top = (float(side) for side in plan.corner_BVT2[b, v, t])
    cx, cy, w, h = (float(value) for value in index.boxes[box])
    x1, x2 = (min(max((cx + half) * size[0] + left, 0), width) for half in (-w / 2, w / 2))
    y1, y2 = (min(max((cy + half) * size[1] + top, 0), height) for half in (-h / 2, h / 2))
    old_area = (x2 - x1) * (y2 - y1) * float(plan.scale_BV[b, v]) ** 2
    move = _mover(plan, b, v)
    polygon = index.points[index.point_starts[box] : index.point_starts[box + 1]]
    yolov7 = plan.recipe.style == "yolov7"
    if len(polygon) and yolov7:
        on_canvas = [
            (min(max(float(x) * size[0] + left, 0), width), min(max(float(y) * size[1] + top, 0), height))
            for x, y in polygon
        ]
        outline = [move(x, y) for x, y in _resampled(on_canvas)]
        inside = [(x, y) for x, y in outline if 0 <= x <= plan.width and 0 <= y <= plan.height]
        corners = _around(inside) if inside else (0.0, 0.0, 0.0, 0.0)
        gaps = np.diff([*outline, outline[0]], axis=0)
        tolerance = float(np.abs(gaps).max())
    else:
        corners = _around([move(x1, y1), move(x2, y1), move(x2, y2), move(x1, y2)])
        tolerance = 1e-4
    corners = tuple(min(max(c, 0), limit) for c, limit in zip(corners, (plan.width, plan.height) * 2, strict=True))
    keep, doubtful = _decide(corners, old_area, yolov7, bool(len(polygon)), tolerance)
    return Candidate(b, v, int(index.labels[box]), corners, keep, tolerance, doubtful)


def _mover(plan, b, v):
    m = plan.matrix_BV33[b, v]

    def move(x, y):
        depth = m[2, 0] * x + m[2, 1] * y + m[2, 2]
        return (m[0, 0] * x + m[0, 1] * y + m[0, 2]) / depth, (m[1, 0] * x + m[1, 1] * y + m[1, 2]) / depth

    def move_partner(x, y):
        """YOLOX's mixup partner: resized from edge to edge, mirrored within whole pixels, shifted."""
        factor = m[1, 1]
        if m[0, 0] > 0:
            return factor * x + round(m[0, 2] + 0.5 - 0.5 * factor), factor * y + round(m[1, 2] + 0.5 - 0.5 * factor)
        return round(m[0, 2] + 0.5 + 0.5 * factor) - factor * x, factor * y + round(m[1, 2] + 0.5 - 0.5 * factor)

    return move_partner if plan.recipe.style == "yolox" and v == 1 else move


def _resampled(polygon):
    """Points at equal distances along the closed outline, its corners not among them in general."""
    closed = np.array([*polygon, polygon[0]])
    lengths = np.hypot(*np.diff(closed, axis=0).T)
    along = np.concatenate(([0.0], np.cumsum(lengths)))
    at = np.linspace(0, along[-1], POINTS, endpoint=False)
    return list(zip(np.interp(at, along, closed[:, 0]), np.interp(at, along, closed[:, 1]), strict=True))


def _around(points):
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def _decide(corners, old_area, yolov7, has_polygon, tolerance):
    w, h = corners[2] - corners[0], corners[3] - corners[1]
    if not yolov7:
        smallest = min(w, h)
        return smallest > 1, abs(smallest - 1) < 2 * tolerance
    area, least = w * h / (old_area + 1e-16), 0.01 if has_polygon else 0.10
    aspect = max(w / (h + 1e-16), h / (w + 1e-16))
    keep = w > 2 and h > 2 and area > least and aspect < 20
    wrong = 2 * tolerance
    doubtful = (
        abs(min(w, h) - 2) < wrong
        or abs(area - least) * old_area < wrong * (w + h + wrong)
        or abs(max(w, h) - 20 * min(w, h)) < 21 * wrong
    )
    return keep, doubtful
