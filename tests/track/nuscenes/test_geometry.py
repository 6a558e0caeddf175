"""2-D boxes of 3-D ones: against a plain construction of the outline, and why the usual short cuts are wrong."""

import numpy as np
import pytest

from tests.track.nuscenes.made_up import SIZE, expected, table
from yolofast.track.nuscenes.geometry import NEAR, Mounts, Poses, Solids, between, make_views, matrices, see
from yolofast.track.nuscenes.occlusion import covered_shares

WIDTH, HEIGHT = SIZE
EDGES = [(a, b) for a in range(8) for b in range(a) if bin(a ^ b).count("1") == 1]


def corners_in_camera(centre, size, rotation, pose, mount):
    """[8, 3]; corner i is ahead, left and above where its bits say so."""
    signs = np.array([[1 if i & bit else -1 for bit in (1, 2, 4)] for i in range(8)])
    w, length, h = size
    points = np.array(centre) + (signs * (length / 2, w / 2, h / 2)) @ matrices(np.array([rotation]))[0].T
    for place, turn in (pose, mount):
        points = (points - place) @ matrices(np.array([turn]))[0]
    return points


def outline(corners, intrinsic):
    """Points whose hull is what shows of a box: corners in front, and where edges pass the near plane."""
    points = [one for one in corners if one[2] >= NEAR]
    for a, b in ((corners[a], corners[b]) for a, b in EDGES):
        if (a[2] - NEAR) * (b[2] - NEAR) < 0:
            points.append(a + (NEAR - a[2]) / (b[2] - a[2]) * (b - a))
    return [(intrinsic @ one)[:2] / one[2] for one in points]


def hull(points):
    """Counter-clockwise, by the monotone chain."""

    def turns_right(a, b, c):
        return (b[0] - a[0]) * (c[1] - a[1]) <= (b[1] - a[1]) * (c[0] - a[0])

    def half(ordered):
        chain = []
        for p in ordered:
            while len(chain) > 1 and turns_right(chain[-2], chain[-1], p):
                chain.pop()
            chain.append(p)
        return chain[:-1]

    ordered = sorted(points, key=tuple)
    return half(ordered) + half(ordered[::-1])


def clipped(polygon, axis, limit, side):
    """The part of a polygon on one side of a border."""
    kept = []
    for p, q in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        inside = [side * (one[axis] - limit) >= 0 for one in (p, q)]
        if inside[0]:
            kept.append(p)
        if inside[0] != inside[1]:
            kept.append(p + (limit - p[axis]) / (q[axis] - p[axis]) * (q - p))
    return kept


def plain_box(corners, intrinsic):
    """None if nothing of it is in the image."""
    polygon = outline(corners, intrinsic)
    polygon = hull(polygon) if len(polygon) > 2 else []
    for axis, limit, side in ((0, 0, 1), (0, WIDTH, -1), (1, 0, 1), (1, HEIGHT, -1)):
        polygon = clipped(polygon, axis, limit, side)
    if not polygon:
        return None
    return np.concatenate((np.min(polygon, axis=0), np.max(polygon, axis=0)))


def random_scene(count):
    """Boxes around a camera that looks along the vehicle's x, many across the near plane and some around the camera."""
    random = np.random.default_rng(3)
    intrinsic = np.array([[1266.0, 0, 800], [0, 1266, 450], [0, 0, 1]])
    places = np.tile((500.0, -300.0, 2.0), (count, 1))
    turns = np.tile((0.9, 0.05, -0.02, 0.4), (count, 1))  # of no length 1
    pose = Poses(place=places, rotation=turns)
    spread = random.choice((1.0, 4.0, 30.0), (count, 1))
    mount = Mounts(
        place=np.tile((1.7, 0.1, 1.5), (count, 1)),
        rotation=np.tile((0.5, -0.5, 0.5, -0.5), (count, 1)),
        intrinsic=np.tile(intrinsic, (count, 1, 1)),
    )
    solids = Solids(
        centre=places + random.normal(0, 1, (count, 3)) * spread * (1, 1, 0.2),
        size=random.uniform(0.3, 6, (count, 3)),
        rotation=random.normal(0, 1, (count, 4)),
    )
    return solids, pose, mount


@pytest.mark.slow
def test_boxes_are_the_bounds_of_the_outline_in_the_image():
    solids, pose, mount = random_scene(400)
    seen = see(solids, make_views(pose, mount, np.tile(SIZE, (400, 1))))
    crossing = shown = 0
    for i in range(400):
        corners = corners_in_camera(
            solids.centre[i], solids.size[i], solids.rotation[i], (pose.place[i], pose.rotation[i]),
            (mount.place[i], mount.rotation[i]),
        )  # fmt: skip
        wanted = plain_box(corners, mount.intrinsic[i])
        if wanted is None:
            assert np.isnan(seen.box[i]).all(), i
            continue
        np.testing.assert_allclose(seen.box[i], wanted, atol=1e-6, err_msg=str(i))
        assert 0 <= seen.truncated[i] <= 1
        shown += 1
        crossing += corners[:, 2].min() < NEAR
    assert shown > 80 and 30 < crossing < shown - 30, (shown, crossing)  # both kinds were there


def test_truncated_is_the_share_outside_of_the_image():
    """A cube whose middle is on the left border, far enough that its two faces nearly coincide."""
    pose = Poses(place=np.zeros((2, 3)), rotation=np.tile((1.0, 0, 0, 0), (2, 1)))
    intrinsic = np.tile(np.array([[1000.0, 0, 0], [0, 1000, 450], [0, 0, 1]]), (2, 1, 1))
    mount = Mounts(place=np.zeros((2, 3)), rotation=pose.rotation, intrinsic=intrinsic)
    solids = Solids(centre=np.array([[0.0, 0, 500], [100, 0, 500]]), size=np.full((2, 3), 2.0), rotation=pose.rotation)
    seen = see(solids, make_views(pose, mount, np.tile(SIZE, (2, 1))))
    assert seen.truncated.tolist() == pytest.approx([0.5, 0.0])
    assert seen.depth.tolist() == [500, 500]


def naive_box(corners, intrinsic):
    """As exporters that people use do it: all corners projected, also those behind the camera."""
    points = corners @ intrinsic.T
    points = (points[:, :2] / points[:, 2:]).clip(0, (WIDTH - 1, HEIGHT - 1))
    return np.concatenate((points.min(axis=0), points.max(axis=0)))


@pytest.mark.slow
def test_projecting_what_is_behind_the_camera_makes_phantoms_and_ours_has_none():
    names = ("sample_data", "ego_pose", "calibrated_sensor", "sample_annotation")
    images, poses, mounts, annotations = ({row["token"]: row for row in table(name)} for name in names)
    boxes = [(images[token], box) for token, one in expected("expected_boxes").items() for box in one["boxes"]]
    pose = [poses[image["ego_pose_token"]] for image, _ in boxes]
    mount = [mounts[image["calibrated_sensor_token"]] for image, _ in boxes]
    solid = [annotations[box["annotation"]] for _, box in boxes]
    areas = []
    for i, (_, box) in enumerate(boxes):
        frames = [(one["translation"], one["rotation"]) for one in (pose[i], mount[i])]
        corners = corners_in_camera(solid[i]["translation"], solid[i]["size"], solid[i]["rotation"], *frames)
        naive = naive_box(corners, np.array(mount[i]["camera_intrinsic"]))
        np.testing.assert_allclose(naive, box["seed_all_corners_minmax"], atol=1e-4)
        areas.append((naive[2] - naive[0]) * (naive[3] - naive[1]))

    def column(rows, key):
        return np.array([row[key] for row in rows], float)

    found = see(
        Solids(centre=column(solid, "translation"), size=column(solid, "size"), rotation=column(solid, "rotation")),
        make_views(
            Poses(place=column(pose, "translation"), rotation=column(pose, "rotation")),
            Mounts(
                place=column(mount, "translation"), rotation=column(mount, "rotation"),
                intrinsic=column(mount, "camera_intrinsic"),
            ),
            np.tile(SIZE, (len(boxes), 1)),
        ),
    ).box  # fmt: skip
    wanted = np.array([box["near_plane_clipped"] or [np.nan] * 4 for _, box in boxes], float)
    np.testing.assert_allclose(found, wanted, atol=1e-4)  # NaN where nothing is in the image
    unseen, whole = np.isnan(found[:, 0]), 0.9 * WIDTH * HEIGHT
    naive_whole, own_whole = np.array(areas) > whole, (found[:, 2:] - found[:, :2]).prod(axis=1) > whole
    counts = len(areas), naive_whole.sum(), (~unseen).sum(), own_whole.sum(), unseen.sum(), (naive_whole & unseen).sum()
    print(
        "\nall corners projected: {} boxes, {} over nine tenths of the image\n"
        "edges cut:             {} boxes, {} over nine tenths of the image\n"
        "so {} boxes are of objects out of view, {} of them over nine tenths of the image".format(*counts)
    )
    assert counts == (288, 54, 248, 22, 40, 31), "as docs/reports-corrected.md says"


def test_rotations_turn_the_shorter_way_round():
    still = np.zeros((3, 3))
    quarter = np.array([[0.5**0.5, 0, 0, 0.5**0.5]])
    one = Solids(centre=still, size=still + 1, rotation=np.tile((1.0, 0, 0, 0), (3, 1)))
    other = Solids(centre=still + 4, size=still + 1, rotation=np.vstack((quarter, -quarter, one.rotation[:1])))
    half = between(one, other, np.array([0.5, 0.5, 0.25]))
    eighth = (np.cos(np.pi / 8), 0, 0, np.sin(np.pi / 8))
    np.testing.assert_allclose(half.rotation, [eighth, eighth, (1, 0, 0, 0)], atol=1e-12)
    assert half.centre[:, 0].tolist() == [2, 2, 1]


def test_nearer_boxes_cover_farther_ones_once():
    box = np.array([
        [0, 0, 100, 100],  # covered in its left half by the second and third, which overlap there
        [0, 0, 50, 80], [0, 20, 50, 100],
        [10, 10, 20, 20],  # wholly covered
        [0, 0, 100, 100],  # in another image
        [100, 0, 200, 100],  # beside the first
    ], float)  # fmt: skip
    shares = covered_shares(np.array([0, 0, 0, 0, 1, 1]), box, np.array([9.0, 5, 6, 20, 30, 40]))
    assert shares.tolist() == pytest.approx([0.5, 0.0, 0.75, 1.0, 0.0, 0.0])
    assert covered_shares(np.zeros(0, int), np.zeros((0, 4)), np.zeros(0)).tolist() == []


def test_coverage_is_that_of_the_union_to_a_few_hundredths():
    random = np.random.default_rng(0)
    corner, size = random.integers(0, 60, (40, 2)), random.integers(8, 40, (40, 2))
    box, depth = np.hstack((corner, corner + size)), random.permutation(40).astype(float)
    shares = covered_shares(np.zeros(40, int), box.astype(float), depth)
    for i, (left, top, right, bottom) in enumerate(box):
        pixels = np.zeros((100, 100), bool)
        for x1, y1, x2, y2 in box[depth < depth[i]]:
            pixels[y1:y2, x1:x2] = True
        assert shares[i] == pytest.approx(pixels[top:bottom, left:right].mean(), abs=0.06)
