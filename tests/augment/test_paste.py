"""Objects of other images and mirrored copies: the published rules, and labels that match the pixels."""

import numpy as np
import pytest

from tests.augment.made_up import PLAIN, make_index, pack, plan_batch, planner_for, random_set
from tests.augment.test_boxes_follow_pixels import COLOURS, painted_set
from yolofast.augment import render_cv2
from yolofast.augment.labels import on_canvas, place_boxes
from yolofast.augment.plan import FILL
from yolofast.augment.planner import _paste_into, add_copies, covered_share, objects_with_polygon
from yolofast.augment.recipe import Recipe, change

SIZE = 320
PASTE = change(Recipe(), {"paste_in": 1.0})
COPY = change(PLAIN, {"nine": 0.3, "copy_paste": 1.0})
SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])


def share_covered(cover, box):
    """By hand: of two rectangles x1, y1, x2, y2, how much of the second the first covers."""
    across = min(cover[2], box[2]) - max(cover[0], box[0])
    down = min(cover[3], box[3]) - max(cover[1], box[1])
    return max(across, 0) * max(down, 0) / ((box[2] - box[0]) * (box[3] - box[1]))


def test_covered_share():
    there = np.array([[0.0, 0.0, 10.0, 10.0], [5.0, 5.0, 6.0, 9.0], [20.0, 20.0, 30.0, 30.0], [3.0, 3.0, 3.0, 8.0]])
    rectangle = np.array([4.0, 0.0, 12.0, 5.0])
    assert covered_share(rectangle, there).tolist() == pytest.approx([0.3, 0.0, 0.0, 0.0])
    assert covered_share(np.array([5.0, 4.0, 9.0, 7.0]), there).tolist() == pytest.approx([0.12, 0.5, 0.0, 0.0])


class TestPasteIn:
    def plan(self, boxes_there=True, batch=200, recipe=PASTE):
        """Small images, half of them with boxes, and one large square object to paste."""
        boxes = [[[0.5, 0.5, 1.0, 1.0]]] + [[[0.3, 0.4, 0.3, 0.5], [0.8, 0.7, 0.2, 0.2]] if boxes_there else []] * 9
        polygons = [SQUARE] + [None] * 18 * boxes_there
        index = make_index([[SIZE, SIZE]] * 10, boxes, polygons)
        sizes = np.full((10, 2), SIZE)
        images = 1 + np.arange(batch) % 9
        planner = planner_for(recipe, index, pack_nothing(sizes), SIZE, SIZE)
        return planner.plan(images, np.arange(batch), 0)

    @pytest.mark.slow
    def test_sizes_of_the_slots(self):
        """On bare images: at most 2 objects of up to 75 %, 4 of up to 50 %, 4 of 25 %, 4 of 12.5 %, 6 of 6.25 %."""
        planned = self.plan(boxes_there=False)
        pastes = planned.plan.pastes
        sides = pastes.place[:, 2:]
        assert sides.min() > 10
        assert all(mask.sum() > 60 for mask in pastes.masks)
        assert sides.max() <= 0.75 * SIZE
        for share, most in ((0.5, 2), (0.25, 6), (0.125, 10), (0.0625, 14)):
            large = np.bincount(pastes.image[sides.max(axis=1) > share * SIZE], minlength=200)
            assert large.max() <= most
            assert large.max() >= most // 2
        assert sides.max() > 0.6 * SIZE

    @pytest.mark.slow
    def test_a_slot_over_twenty_pixels_is_needed(self):
        """A slot of 6.25 % of 320 is 20 pixels at most, so none of those is ever used."""
        sides = self.plan(boxes_there=False, batch=400).plan.pastes.place[:, 2:]
        assert sides.min() > 20, "a square object is as large as the slot's shorter side"

    def test_a_fifth_of_the_slots_is_skipped(self):
        """The first draw of a slot decides; the others here ask for the largest size, in the middle."""
        plan = self.plan(boxes_there=False, batch=1).plan
        index = make_index([[SIZE, SIZE]], [[[0.5, 0.5, 1.0, 1.0]]], [SQUARE])
        for draw, pasted in ((0.0, 0), (0.1999, 0), (0.2001, 1), (0.999, 1)):
            draws = np.zeros((20, 6))
            draws[0] = draw, 0.999, 0.999, 0.5, 0.5, 0.0
            items = _paste_into(plan, np.zeros((0, 4)), draws, index, np.array([[SIZE, SIZE]]), np.array([0]))
            assert len(items) == pasted, draw
        assert items[0].place.tolist() == [40, 40, 240, 240]

    @pytest.mark.slow
    def test_no_box_is_covered_by_thirty_percent_and_none_lies_outside(self):
        planned = self.plan()
        plan, rows = planned.plan, planned.rows
        assert len(plan.pastes.image) > 200
        for b in range(len(plan)):
            own = rows[rows[:, 0] == b, 2:].astype(float) * SIZE
            corners = np.concatenate((own[:, :2] - own[:, 2:] / 2, own[:, :2] + own[:, 2:] / 2), axis=1)
            places = plan.pastes.place[plan.pastes.image == b]
            for number, (x, y, w, h) in enumerate(places):
                assert x >= 0 and y >= 0 and x + w <= SIZE and y + h <= SIZE
                before = corners[: 2 + number]
                assert all(share_covered((x, y, x + w, y + h), box) < 0.3 for box in before)
                assert corners[2 + number].tolist() == pytest.approx([x, y, x + w, y + h], abs=1e-3)

    @pytest.mark.slow
    def test_share_of_images(self):
        plan = self.plan(boxes_there=False, batch=2000, recipe=change(PASTE, {"paste_in": 0.3})).plan
        assert abs(len(np.unique(plan.pastes.image)) / 2000 - 0.3) < 0.04
        assert not len(self.plan(batch=50, recipe=Recipe()).plan.pastes.image)

    @pytest.mark.parametrize("flips", [0.0, 1.0])
    def test_the_object_is_seen_where_its_box_is(self, flips):
        index, images = painted_set(0, True, True)
        recipe = change(PLAIN, {"mosaic": 0.0, "paste_in": 1.0, "flipud": flips, "fliplr": flips})
        planned = plan_batch(recipe, index, images, 26, 96, 96)
        plan = planned.plan
        last = {int(b): p for p, b in enumerate(plan.pastes.image)}  # nothing lies on the last one
        for b, p in last.items():
            image = render_cv2.render_one(plan, b, images)
            row = planned.rows[planned.rows[:, 0] == b][-1]
            label = int(plan.pastes.source[p])  # one object per image, whose class is its number
            assert row[1] == label
            x1, y1, x2, y2 = np.concatenate((row[2:4] - row[4:] / 2, row[2:4] + row[4:] / 2)) * 96
            inside = image[round(y1) : round(y2), round(x1) : round(x2)]
            # The rectangle fills its box; the crop's last pixels may be grey because it was cut at whole pixels.
            assert (np.abs(inside[1:-2, 1:-2].astype(int) - COLOURS[label]) < 3).mean() > 0.95
        assert len(last) > 10

    @pytest.mark.slow
    def test_objects_come_from_everywhere_but_crowds(self):
        index, images = random_set(0, 20, polygons=True, crowd=0.4)
        plan = planner_for(PASTE, index, images, SIZE, SIZE).plan(np.zeros(300, int), np.arange(300), 0).plan
        real = objects_with_polygon(index)
        assert set(real) == set(np.flatnonzero(~index.crowd))
        assert len(np.unique(plan.pastes.source)) > 10

    def test_without_polygons_nothing_happens(self):
        index, images = random_set(0, polygons=False)
        recipe = change(PLAIN, {"paste_in": 1.0, "copy_paste": 1.0})
        with_paste, without = (plan_batch(r, index, images, 20) for r in (recipe, PLAIN))
        assert not len(with_paste.plan.pastes.image) and not len(with_paste.plan.copies.view)
        assert np.array_equal(with_paste.rows, without.rows)

    def test_a_polygon_without_width_on_the_far_edge(self):
        """It lies behind the last pixels: there is nothing to cut out."""
        flat = np.array([[1.0, 0.2], [1.0, 0.25], [1.0, 0.22]])
        index = make_index([[64, 64]], [[[0.999, 0.225, 0.002, 0.05]]], [flat])
        images = pack([np.full((64, 64, 3), 200, np.uint8)])
        plan = planner_for(PASTE, index, images, SIZE, SIZE).plan(np.zeros(40, int), np.arange(40), 0).plan
        assert not len(plan.pastes.image)


def pack_nothing(sizes):
    """Images of these sizes whose pixels nobody looks at."""
    return type("Sizes", (), {"sizes": sizes})


class TestCopyPaste:
    def test_copies_lie_mirrored_where_they_cover_little(self):
        index, images = random_set(3, 12, empty=0)
        planner = planner_for(COPY, index, images)
        plan = planner.plan(np.arange(12), np.arange(12), 0).plan
        assert len(plan.copies.view) > 6
        placed = place_boxes(plan, index, images.sizes)
        with_copies = add_copies(plan, placed, index)[1]
        corners = on_canvas(with_copies, index)
        for view in np.unique(with_copies.view):
            own = with_copies.view == view
            there = list(corners[own & ~with_copies.mirrored])
            for copy in np.flatnonzero(own & with_copies.mirrored):
                assert all(share_covered(corners[copy], box) < 0.3 for box in there if (box[2:] > box[:2]).all())
                there.append(corners[copy])
                source = own & ~with_copies.mirrored & (with_copies.box == with_copies.box[copy])
                mirror = [(128 - x2, y1, 128 - x1, y2) for x1, y1, x2, y2 in corners[source]]
                assert any(corners[copy].tolist() == pytest.approx(one) for one in mirror)

    def test_every_box_of_the_output_is_in_the_colour_of_its_class(self):
        index, images = painted_set(1, True, True)
        shares, twice = [], 0
        for epoch in range(4):
            planned = plan_batch(change(COPY, {"nine": 0.0}), index, images, 8, 96, 96, epoch=epoch)
            assert len(planned.plan.copies.view)
            for b in range(8):
                image = render_cv2.render_one(planned.plan, b, images).astype(int)
                own = planned.rows[planned.rows[:, 0] == b]
                for row in own:
                    corners = np.concatenate((row[2:4] - row[4:] / 2, row[2:4] + row[4:] / 2)) * 96
                    x1, y1, x2, y2 = corners.round().astype(int)
                    coloured = np.abs(image[y1:y2, x1:x2] - COLOURS[int(row[1])]).max(axis=-1) < 50
                    shares.append(coloured.mean())
                twice += len(own) - len(np.unique(own[:, 1]))
        # Copies may cover much of what is left of an object at the edge; a label in the wrong place has nothing.
        assert np.mean(shares) > 0.9
        assert min(shares) > 0.25
        assert twice > 8

    def test_a_share_of_the_objects(self):
        index, images = random_set(3, 12, empty=0)
        counts = {}
        for share in (0.0, 0.4, 1.0):
            plan = plan_batch(change(COPY, {"copy_paste": share}), index, images, 12).plan
            placed = place_boxes(plan, index, images.sizes)
            copied = add_copies(plan, placed, index)[1].mirrored
            view = add_copies(plan, placed, index)[1].view
            counts[share] = copied.sum()
            for one in np.unique(view):
                own = (view == one) & ~copied
                assert (copied & (view == one)).sum() <= round(share * own.sum())
        assert counts[0.0] == 0 < counts[0.4] < counts[1.0]

    def test_only_mosaics(self):
        index, images = random_set(3, 12, empty=0)
        assert not len(plan_batch(change(COPY, {"mosaic": 0.0}), index, images, 12).plan.copies.view)

    def test_masks_have_the_canvas_and_the_mirrored_pixels_show(self):
        """One image, left half black: what is copied to the right is black, too."""
        image = np.full((64, 64, 3), 255, np.uint8)
        image[20:40, 4:20] = 0
        square = np.array([[4, 20], [20, 20], [20, 40], [4, 40]]) / 64
        index = make_index([[64, 64]], [[[12 / 64, 30 / 64, 16 / 64, 20 / 64]]], [square])
        plan = planner_for(change(COPY, {"nine": 0.0}), index, pack([image])).plan([0] * 20, np.arange(20), 0).plan
        assert all(mask.shape == (128, 128) for mask in plan.copies.masks)
        for view, mask in zip(plan.copies.view, plan.copies.masks, strict=True):
            canvas = np.full((128, 128), FILL)
            for t in range(4):
                x1, y1, x2, y2 = plan.tile_BVT4[view // 2, view % 2, t]
                left, top = plan.corner_BVT2[view // 2, view % 2, t]
                canvas[y1:y2, x1:x2] = image[y1 - top : y2 - top, x1 - left : x2 - left, 0]
            copied = canvas[:, ::-1][mask > 0]
            # fillPoly includes its outline, so one column and row of the surroundings comes along.
            assert (copied == 0).mean() > 0.75
