"""3-D boxes as a camera sees them: the bounds of their outline, cut at the near plane and at the borders of the image.

A box in space, cut where it comes closer than 10 cm to the camera's plane, shows as a convex outline. The 2-D box is
the bounds of what of that outline is in the image. Its corners are of three kinds: ends of edges of the box or the cut,
places where an edge crosses a border, and corners of the image that the box covers. All three are found for all boxes
at once, so no outline is ever built.

Projecting corners behind the camera instead makes phantom boxes over the whole image; leaving them out makes boxes too
small; the bounds of the whole outline, clipped to the image, make them too large.

In names of arrays N are boxes, E edges, P planes.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from yolofast.track.formats.sequence import Floats
from yolofast.track.nuscenes.columns import ColumnTable

NEAR = 0.1
"""Metres in front of the camera where boxes are cut."""
_SIGNS = np.array([(x, y, z) for x in (1, -1) for y in (1, -1) for z in (1, -1)], np.float64)
"""Corners: ahead or behind, left or right, above or below."""
_EDGES = np.array([(a, b) for a in range(8) for b in range(a + 1, 8) if (_SIGNS[a] != _SIGNS[b]).sum() == 1])
_FACES = [np.flatnonzero((_SIGNS[_EDGES, axis] == sign).all(axis=1)) for axis in range(3) for sign in (1, -1)]
_ON_A_FACE = np.array([(a, b) for face in _FACES for a in face for b in face if a < b])
"""Pairs of edges: where both are cut, the cut goes from one to the other."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Poses(ColumnTable):
    """Of n things in a frame of reference."""

    place: Floats
    """[n, 3]"""
    rotation: Floats
    """[n, 4] quaternion w, x, y, z"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Mounts(Poses):
    """Cameras on the vehicle."""

    intrinsic: Floats
    """[n, 3, 3]"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Views(ColumnTable):
    """Of n images: where each was taken, and how."""

    rotation: Floats
    """[n, 3, 3] from the global frame to the camera's, in which z is ahead"""
    origin: Floats
    """[n, 3] the camera in the global frame"""
    intrinsic: Floats
    """[n, 3, 3]"""
    size: Floats
    """[n, 2] width and height"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Solids(ColumnTable):
    """n boxes in the global frame."""

    centre: Floats
    """[n, 3]"""
    size: Floats
    """[n, 3] width, length, height, as in nuScenes"""
    rotation: Floats
    """[n, 4] quaternion w, x, y, z"""


@dataclass(frozen=True, kw_only=True, eq=False)
class ProjectedBoxes(ColumnTable):
    """Of n boxes, each in its image."""

    box: Floats
    """[n, 4] x1, y1, x2, y2 in pixels; NaN where nothing of it is in the image"""
    truncated: Floats
    """[n] share of the outline's bounds that is outside of the image"""
    depth: Floats
    """[n] of the centre, in metres ahead of the camera"""


def matrices(quaternion: Floats) -> Floats:
    """[n, 3, 3] of [n, 4], which need not have length 1."""
    w, x, y, z = (quaternion / np.linalg.norm(quaternion, axis=1, keepdims=True)).T
    rows = (
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    )  # fmt: skip
    return np.stack(rows, axis=1).reshape(-1, 3, 3)


def make_views(vehicle: Poses, camera: Mounts, size: npt.ArrayLike) -> Views:
    """The vehicle in the global frame at the time of each image, the camera on it, and the image's size [n, 2]."""
    turned, mounted = matrices(vehicle.rotation), matrices(camera.rotation)
    origin = vehicle.place + np.einsum("nij,nj->ni", turned, camera.place)
    rotation = (turned @ mounted).transpose(0, 2, 1)
    return Views(rotation=rotation, origin=origin, intrinsic=camera.intrinsic, size=np.asarray(size, np.float64))


def between(one: Solids, other: Solids, share: Floats) -> Solids:
    """The boxes on their way from `one` to `other`: centres move straight, rotations turn evenly."""
    part = share[:, None]
    a = one.rotation / np.linalg.norm(one.rotation, axis=1, keepdims=True)
    b = other.rotation / np.linalg.norm(other.rotation, axis=1, keepdims=True)
    cosine = (a * b).sum(axis=1, keepdims=True)
    b, cosine = np.where(cosine < 0, -b, b), np.abs(cosine)  # the shorter way round
    angle = np.arccos(np.minimum(cosine, 1.0))
    straight = angle < 1e-6
    scale = np.where(straight, 1.0, np.sin(angle))
    first = np.where(straight, 1 - part, np.sin((1 - part) * angle) / scale)
    second = np.where(straight, part, np.sin(part * angle) / scale)
    return Solids(
        centre=one.centre + part * (other.centre - one.centre),
        size=one.size + part * (other.size - one.size),
        rotation=first * a + second * b,
    )


def see(solids: Solids, views: Views) -> ProjectedBoxes:
    """Solid i in view i."""
    count = len(solids.centre)
    box, truncated = np.full((count, 4), np.nan), np.zeros(count)
    centre = np.einsum("nij,nj->ni", views.rotation, solids.centre - views.origin)
    planes = _planes(views)
    reach = np.linalg.norm(solids.size, axis=1) / 2
    near = np.flatnonzero((_distance(planes, centre[:, None])[:, 0] > -reach[:, None]).all(axis=1))
    whole, share = _bounds(centre[near], solids[near], views[near], planes[near])
    box[near], truncated[near] = whole, share
    return ProjectedBoxes(box=box, truncated=truncated, depth=centre[:, 2])


def _planes(views: Views) -> Floats:
    """[N, 5, 4] near plane, left, right, top, bottom: the normal inwards, of length 1, and how far from the camera."""
    across, down, ahead = (views.intrinsic[:, row] for row in range(3))
    width, height = views.size[:, :1], views.size[:, 1:]
    depth = np.broadcast_to((0.0, 0.0, 1.0), across.shape)
    normals = np.stack((depth, across, width * ahead - across, down, height * ahead - down), axis=1)
    normals = normals / np.linalg.norm(normals, axis=2, keepdims=True)
    offsets = np.zeros((len(normals), 5, 1))
    offsets[:, 0] = NEAR
    return np.concatenate((normals, offsets), axis=2)


def _distance(planes: Floats, points: Floats) -> Floats:
    """[N, n, P] of points [N, n, 3]; positive inside."""
    found: Floats = np.matmul(points, planes[..., :3].transpose(0, 2, 1)) - planes[:, None, :, 3]
    return found


def _bounds(centre: Floats, solids: Solids, views: Views, planes: Floats) -> tuple[Floats, Floats]:
    """Boxes and truncated shares; NaN where nothing is in the image."""
    # Length lies along the box's x, width along its y.
    half = solids.size[:, [1, 0, 2]] / 2
    axes = views.rotation @ matrices(solids.rotation)
    corners = centre[:, None] + np.einsum("nij,cj->nci", axes * half[:, None], _SIGNS)
    distance = _distance(planes, corners)
    inside = (distance >= 0).all(axis=(1, 2))
    outside = (distance.max(axis=1) < 0).any(axis=1)  # all corners beyond one plane
    maybe = np.flatnonzero(~inside & ~outside)
    box, truncated = np.full((len(centre), 4), np.nan), np.zeros(len(centre))
    box[inside] = _around(_project(corners[inside], views.intrinsic[inside]))
    if len(maybe):
        edges = _Edges(corners[maybe], planes[maybe], views[maybe])
        covered = _covered_corners(centre[maybe], axes[maybe], half[maybe], views[maybe])
        box[maybe], truncated[maybe] = edges.bounds(covered)
    return box, truncated


class _Edges:
    """The edges of boxes of which a part is in front of the camera and a part may be outside of the image."""

    def __init__(self, corners: Floats, planes: Floats, views: Views) -> None:
        self._views, self._planes = views, planes
        self._ends = corners[:, _EDGES]  # [N, E, 2, 3]

    def bounds(self, covered: Floats) -> tuple[Floats, Floats]:
        """`covered` [N, 4, 2] are corners of the image that the boxes cover, NaN for others."""
        ahead = _cut(self._ends, self._planes[:, :1])
        outline = _around(_project(ahead.reshape(len(ahead), -1, 3), self._views.intrinsic))
        ahead = self._with_cuts(ahead)
        shown = _cut(ahead, self._planes[:, 1:])
        points = _project(shown.reshape(len(shown), -1, 3), self._views.intrinsic)
        # On the border to the last bit: rounding must not carry a box out of the image.
        points = np.clip(points, 0.0, self._views.size[:, None])
        box = _around(np.concatenate((points, covered), axis=1))
        box[~(box[:, 2:] > box[:, :2]).all(axis=1)] = np.nan
        return box, 1 - _area(box) / _area(outline)

    def _with_cuts(self, ahead: Floats) -> Floats:
        """Also the edges that the near plane makes: on each face from one cut edge to another."""
        distance = self._ends[..., 2] - NEAR
        crosses = (distance.min(axis=2) < 0) & (distance.max(axis=2) >= 0)  # [N, E]
        if not crosses.any():
            return ahead
        behind = distance[..., 0] < 0
        at = np.where(behind[..., None], ahead[..., 0, :], ahead[..., 1, :])  # where each edge is cut
        cuts = at[:, _ON_A_FACE]
        cuts[~crosses[:, _ON_A_FACE].all(axis=2)] = np.nan
        return np.concatenate((ahead, cuts), axis=1)


def _cut(ends: Floats, planes: Floats) -> Floats:
    """[N, E, 2, 3] what of each edge is inside of all planes; NaN where nothing is."""
    count, edges = ends.shape[:2]
    distance = _distance(planes, ends.reshape(count, -1, 3)).reshape(count, edges, 2, -1)
    first, second = distance[:, :, 0], distance[:, :, 1]  # [N, E, P]
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = first / (first - second)
        begin = np.where(first < 0, crossing, 0.0).max(axis=2)
        end = np.where(second < 0, crossing, 1.0).min(axis=2)
    gone = ~(begin <= end) | ((first < 0) & (second < 0)).any(axis=2)
    begin[gone] = end[gone] = np.nan
    start, way = ends[:, :, :1], ends[:, :, 1:] - ends[:, :, :1]
    return start + np.stack((begin, end), axis=2)[..., None] * way


def _covered_corners(centre: Floats, axes: Floats, half: Floats, views: Views) -> Floats:
    """[N, 4, 2] corners of the image whose ray meets the box in front of the near plane; NaN for others."""
    width, height = views.size.T
    nothing = np.zeros_like(width)
    pixels = np.stack((nothing, nothing, width, nothing, nothing, height, width, height), axis=1).reshape(-1, 4, 2)
    rays = np.concatenate((pixels, np.ones((len(pixels), 4, 1))), axis=2)
    rays = np.matmul(rays, np.linalg.inv(views.intrinsic).transpose(0, 2, 1))  # z is 1: lengths along them are depths
    way, start = np.matmul(rays, axes), -np.einsum("ni,nij->nj", centre, axes)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = (-half[:, None] - start) / way, (half[:, None] - start) / way
    enter, leave = np.fmin(one, other).max(axis=2), np.fmax(one, other).min(axis=2)
    pixels[~(leave >= np.maximum(enter, NEAR))] = np.nan
    return pixels


def _project(points: Floats, intrinsic: Floats) -> Floats:
    """[N, n, 2] pixels of [N, n, 3]."""
    found = np.matmul(points, intrinsic.transpose(0, 2, 1))
    pixels: Floats = found[..., :2] / found[..., 2:]
    return pixels


def _around(points: Floats) -> Floats:
    """[N, 4] bounds of [N, n, 2], those that are NaN left out."""
    return np.concatenate((np.fmin.reduce(points, axis=1), np.fmax.reduce(points, axis=1)), axis=1)


def _area(box: Floats) -> Floats:
    return (box[:, 2] - box[:, 0]) * (box[:, 3] - box[:, 1])
