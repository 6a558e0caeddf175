"""What a plan does to boxes, box by box in plain loops, polygons by a thousand points along their outline.

Points miss what lies between them, so the reference is a pair of boxes: around the points seen, and around all that can
lie between them. The right box contains the one and lies in the other.
"""

from dataclasses import dataclass

import numpy as np

POINTS = 1000
ROUNDING = 1e-4


@dataclass
class Candidate:
    """A box of a tile after the transform."""

    image: int
    view: int
    label: int
    inner: tuple
    outer: tuple
    keep: bool | None
    """None if the two boxes do not tell."""


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
        inner, outer = _seen([move(x, y) for x, y in _resampled(on_canvas)], plan.width, plan.height)
    else:
        inner = _around([move(x1, y1), move(x2, y1), move(x2, y2), move(x1, y2)])
        inner = outer = _cut(inner, plan.width, plan.height)
    inner, outer = _grown(inner, -ROUNDING), _grown(outer, ROUNDING)
    keep = _keep(_sides(inner), _sides(outer), old_area, yolov7, bool(len(polygon)))
    return Candidate(b, v, int(index.labels[box]), inner, outer, keep)


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


def _seen(outline, width, height):
    """The box of the points in the image, and that of all that could be in it between two points."""
    gap = float(np.abs(np.diff([*outline, outline[0]], axis=0)).max())
    inside = [(x, y) for x, y in outline if 0 <= x <= width and 0 <= y <= height]
    near = [(x, y) for x, y in outline if -gap <= x <= width + gap and -gap <= y <= height + gap]
    inner = _around(inside) if inside else (0.0, 0.0, 0.0, 0.0)
    return inner, _cut(_grown(_around(near), gap), width, height) if near else inner


def _around(points):
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def _cut(corners, width, height):
    return tuple(min(max(c, 0), limit) for c, limit in zip(corners, (width, height) * 2, strict=True))


def _grown(corners, by):
    x1, y1, x2, y2 = corners
    return x1 - by, y1 - by, x2 + by, y2 + by


def _sides(corners):
    return max(corners[2] - corners[0], 0), max(corners[3] - corners[1], 0)


def _keep(inner, outer, old_area, yolov7, has_polygon):
    if not yolov7:
        return _agreed(min(inner) > 1, min(outer) > 1)
    least = (0.01 if has_polygon else 0.10) * old_area
    enough, maybe = (min(sides) > 2 and sides[0] * sides[1] > least for sides in (inner, outer))
    thinnest = max(outer[0] / max(inner[1], 1e-9), outer[1] / max(inner[0], 1e-9))
    stoutest = max(inner[0] / max(outer[1], 1e-9), inner[1] / max(outer[0], 1e-9))
    return _agreed(enough and thinnest < 20, maybe and stoutest < 20)


def _agreed(surely, maybe):
    return surely if surely == maybe else None
