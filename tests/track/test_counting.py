"""Who crossed a line, who is in a zone, and how many there were."""

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
