"""Who crossed a line, who is in a zone, and how many there were."""

from dataclasses import replace

import numpy as np
import pytest

from yolofast import UserError
from yolofast.track.counting import Counts, parse_shape
from yolofast.track.drawing import TrackDrawing
from yolofast.track.trackers.tracks import Tracks


def tracks(*rows):
    """Of identity, x, y and label: a box of 10 × 10 around the point."""
    ids, x, y, labels = (np.array([row[place] for row in rows]) for place in range(4)) if rows else [np.zeros(0)] * 4
    boxes = np.stack((x - 5, y - 5, x + 5, y + 5), axis=1).astype(np.float64).reshape(-1, 4)
    count = len(rows)
    whole = np.int64
    return Tracks(
        ids.astype(whole), boxes, np.ones(count), labels.astype(whole), np.ones(count, bool), np.arange(count)
    )


def test_crossings_count_once_each_way():
    counts = Counts([parse_shape("door=50,0,50,100", 1, line=True)])
    for x in (40, 60, 40, 60, 40):  # it trembles on the line
        counts.add(tracks((1, x, 50, 0)), tracks(), (100, 100))
    counts.add(tracks((1, 40, 50, 0), (2, 40, 150, 1)), tracks(), (100, 100))
    counts.add(tracks((1, 40, 50, 0), (2, 60, 150, 1)), tracks(), (100, 100))  # beyond the end of the line
    found = counts.lines["door"]
    # Downwards along the line, left is where x is greater.
    assert dict(found.forwards) == {0: 1} and dict(found.backwards) == {0: 1}
    assert counts.identities() == {0: 1, 1: 1}


def test_zones_and_identities_that_are_gone():
    counts = Counts([parse_shape("0,0,0.5,0,0.5,1,0,1", 1, line=False)], at="bottom")
    counts.add(tracks((1, 20, 50, 0), (2, 80, 50, 0)), tracks(), (100, 100))
    assert counts.zones["zone 1"].inside.total() == 1 and counts.now[0] == 2
    counts.add(tracks((2, 30, 50, 0)), tracks((1, 20, 50, 0)), (100, 100))
    counts.add(tracks((2, 30, 50, 1)), tracks(), (100, 100))
    assert counts.zones["zone 1"].inside == {1: 1} and counts.zones["zone 1"].entered == {0: 2}
    assert counts.identities() == {0: 1, 1: 1}  # a vote may change the class
    assert not counts._points.keys() - {2}, "what is over takes no memory"


@pytest.mark.parametrize("text", ["", "1,2,3", "a,b,c,d", "1,1,1,1", "1,2,nan,4", "1,2,3,4,5,6"])
def test_lines_that_are_none(text):
    with pytest.raises(UserError, match="--line is"):
        parse_shape(text, 1, line=True)


def test_shares_need_a_size():
    with pytest.raises(UserError, match="whose size is unknown"):
        Counts([parse_shape("0,0,1,1", 1, line=True)]).add(tracks(), tracks(), (0, 0))


def test_drawing_has_boxes_trails_lost_ones_and_counts():
    image = np.zeros((120, 160, 3), np.uint8)
    counts = Counts([parse_shape("0,100,160,100", 1, line=True)])
    plain, full = TrackDrawing(("cat",)), TrackDrawing(("cat",), show_lost=True)
    for x in (30, 60, 90):
        counts.add(tracks((1, x, 60, 0)), tracks(), (160, 120))
        drawings = [one.draw(image, tracks((1, x, 60, 0)), tracks((2, 130, 60, 0)), counts) for one in (plain, full)]
    assert not image.any() and drawings[0][60, 45].any(), "a trail"
    assert not drawings[0][50:70, 120:140].any() and drawings[1][50:70, 120:140].any(), "a lost one"
    assert drawings[0][100].any(), "a line"
    colours = [TrackDrawing(()).draw(image, tracks((id, 60, 60, 0)), tracks())[60, 55].tolist() for id in (1, 1, 2)]
    assert colours[0] == colours[1] != colours[2]


def scene(size=(160, 120)):
    return np.zeros((size[1], size[0], 3), np.uint8)


def test_trails_go_with_their_tracks():
    image, drawing, shows_lost = scene(), TrackDrawing(()), TrackDrawing((), show_lost=True)
    for x in (30, 60, 90):
        for one in (drawing, shows_lost):
            one.draw(image, tracks((1, x, 60, 0)), tracks())
    gone = tracks((1, 120, 60, 0))
    assert not drawing.draw(image, tracks(), gone).any(), "lost ones are not shown, nor is where they were"
    assert shows_lost.draw(image, tracks(), gone)[60, 45].any()
    for _ in range(28):
        last = shows_lost.draw(image, tracks(), gone)
    assert not last[60, 20:100].any(), "a trail is as long as it says"
    assert drawing.draw(image, tracks((1, 120, 60, 0)), tracks())[60, 105].any(), "found again"


def test_labels_stay_inside_the_image():
    inside = TrackDrawing(("a-long-name",), line_width=2).draw(scene(), tracks((1, 158, 60, 0)), tracks())
    alone = TrackDrawing(("a-long-name",), line_width=2).draw(scene(), tracks((1, 60, 60, 0)), tracks())
    assert (inside > 200).all(2).sum() == (alone > 200).all(2).sum() > 0, "all its letters are there"
    beyond = TrackDrawing(("a-long-name",), line_width=2).draw(scene(), tracks((1, 300, 60, 0)), tracks())
    assert not beyond.any(), "what is outside has no label"


def test_the_panel_says_which_class_it_counts_also_without_names():
    counts = Counts([])
    counts.add(tracks((1, 30, 60, 3), (2, 60, 60, 2), (3, 90, 60, 3)), tracks(), (160, 120))
    assert TrackDrawing(())._lines(counts) == ["class 3: 2 now, 2 so far", "class 2: 1 now, 1 so far"]
    assert TrackDrawing(("a", "b", "c", "d"))._lines(counts)[0] == "d: 2 now, 2 so far"
    unknown = Counts([])
    unknown.add(tracks((1, 30, 60, -1)), tracks(), (160, 120))
    assert TrackDrawing(())._lines(unknown) == ["1 now, 1 so far"]


@pytest.mark.slow
def test_the_panel_keeps_away_from_boxes_and_labels_of_zones():
    """A box in the upper right, a zone's label in the upper left, a line's half way down."""
    shapes = [parse_shape("0,0,80,0,80,60", 1, line=False), parse_shape("0,119,100,119", 1, line=True)]
    counts, drawing, image = Counts(shapes), TrackDrawing(("cat",)), scene((320, 240)) + np.uint8(100)
    crowd = [tracks((1, 270, 20, 0)), tracks((1, 270, 200, 0))]
    boxes = [np.array([[200.0, 0, 320, 90]]), np.array([[200.0, 150, 320, 240]])]
    crowd = [replace(one, boxes=box) for one, box in zip(crowd, boxes, strict=True)]
    places = []
    for number in range(90):
        now = crowd[0] if number < 45 or number % 2 else crowd[1]
        counts.add(now, tracks(), (320, 240))
        drawn = drawing.draw(image, now, tracks(), counts)
        shaded = (drawn == 40).all(2)
        rows, columns = shaded.any(1).nonzero()[0], shaded.any(0).nonzero()[0]
        places.append((int(columns.min()), int(rows.min()), int(columns.max()), int(rows.max())))
        assert (drawn[0:10, 0:40] != image[0:10, 0:40]).any() and not shaded[:15, :120].any()
    assert len(set(places)) == 1, "it does not jump"
    left, top, _, bottom = places[0]
    assert left < 160 and top > 200 and bottom <= 239
