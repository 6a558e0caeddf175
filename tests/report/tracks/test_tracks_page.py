"""What the page of `trackval` says, on cases made by hand: causes of switches, courses of objects, pictures."""

import cv2
import numpy as np
import pytest

from yolofast import UserError, score_tracks
from yolofast.pages.elements import Callout, Picture, Table, Timeline
from yolofast.pages.html import render_page
from yolofast.pages.markdown import render_markdown
from yolofast.report.tracks.objects import MISSED, objects_of, timeline, worst
from yolofast.report.tracks.tracks_page import causes_of, explained, page_of

SIZE = 20


def rows(*tracks):
    """Tracks as (id, {frame: (x, y)}) of squares."""
    found = [(frame, id, x, y, SIZE, SIZE) for id, places in tracks for frame, (x, y) in places.items()]
    return np.array(sorted(found), np.float64).reshape(-1, 6)


def still(x, *frames, y=0):
    return dict.fromkeys(frames, (x, y))


FAR = (9, still(500, 1, 2, 3, 4))  # so that every frame has truth and results


def switch_of(truth, results):
    (one,) = [one for one in explained(score_tracks(truth, results)) if one.event.truth_id == 1]
    return one


def test_a_gap():
    one = switch_of(rows((1, still(0, 1, 2, 3, 4)), FAR), rows((1, still(0, 1)), (2, still(0, 4)), FAR))
    assert (one.cause, one.gap, one.covered, one.former) == ("gap", 2, 0, "ended in frame 1")


def test_an_object_in_the_way():
    truth = rows((1, still(0, 1, 2, 3, 4)), (2, still(100, 1, 3, 4) | still(8, 2)), FAR)
    results = rows((1, still(0, 1)), (3, still(0, 3, 4)), (2, still(100, 1, 3, 4) | still(8, 2)), FAR)
    one = switch_of(truth, results)
    assert (one.cause, one.covered_by, one.gap) == ("covered", 2, 1)
    assert one.covered == pytest.approx(0.6)


def test_an_exchange():
    truth = rows((1, still(0, 1, 2, 3, 4)), (2, still(100, 1, 2, 3, 4)))
    results = rows((1, still(0, 1, 2) | still(100, 3, 4)), (2, still(100, 1, 2) | still(0, 3, 4)))
    one = switch_of(truth, results)
    assert (one.cause, one.former, one.event.rival) == ("exchange", "follows object 2", 2)
    assert causes_of(explained(score_tracks(truth, results))) == {"exchange": 2}


def test_a_jump_and_a_result_that_stays_behind():
    one = switch_of(rows((1, still(0, 1, 2) | still(30, 3, 4))), rows((1, still(0, 1, 2, 3, 4)), (2, still(30, 3, 4))))
    assert (one.cause, one.moved, one.former) == ("jump", 30, "30 pixels away")


def test_another_result_in_plain_sight_and_one_that_comes_back():
    results = rows((1, still(0, 1, 2) | still(900, 4)), (2, still(0, 3, 4)))
    one = switch_of(rows((1, still(0, 1, 2, 3, 4))), results)
    assert (one.cause, one.former) == ("plain sight", "back in frame 4")


def test_courses_of_objects():
    truth = rows((1, still(0, 1, 2, 3, 4, 6)), (2, still(100, 1, 2)))
    results = rows((7, still(0, 1, 2)), (8, still(0, 4, 6)), (5, still(100, 1, 2)))
    objects = objects_of("a", *score_tracks(truth, results).evidence["sequence"])
    assert [(one.id, one.matched, one.results, one.switches, one.longest) for one in objects] == [
        (1, 4, [7, 8], 1, 2),
        (2, 2, [5], 0, 2),
    ]
    assert [one.id for one in worst(objects, 1)] == [1]
    (_, stretches), _ = timeline("a", objects, 6).rows
    assert [(one.first, one.last, one.state, one.hint) for one in stretches] == [
        (1, 2, "first result", "frames 1–2: result 7"),
        (3, 3, MISSED, "frame 3: missed"),
        (4, 4, "second result", "frame 4: result 8"),
        (6, 6, "second result", "frame 6: result 8"),  # not there in frame 5
    ]


def test_short_stretches_of_a_long_course_are_drawn_together():
    frames = range(1, 5001)
    results = rows((1, still(0, *(f for f in frames if f % 5))))
    objects = objects_of("a", *score_tracks(rows((1, still(0, *frames))), results).evidence["sequence"])
    assert len(timeline("a", objects, 5000).rows[0][1]) == 1


def elements(page, kind):
    return [one for section in page.sections for one in section.elements if isinstance(one, kind)]


def test_pictures_show_the_object_before_and_after(tmp_path):
    truth, results = (
        {"A": rows((1, still(30, 1, 2, y=30)))},
        {"A": rows((1, still(30, 1, y=30)), (2, still(30, 2, y=30)))},
    )
    folder = tmp_path / "A" / "img1"
    folder.mkdir(parents=True)
    for frame, colour in ((1, (0, 0, 200)), (2, (0, 200, 0))):
        cv2.imwrite(str(folder / f"{frame:06}.png"), np.full((90, 90, 3), colour, np.uint8))
    scores = score_tracks(truth, results)
    (picture,) = elements(page_of(scores, "t", explained(scores), tmp_path), Picture)
    assert "object 1: result 1 in frame 1, result 2 in frame 2 (plain sight)" in picture.caption
    pixels = cv2.imdecode(np.frombuffer(picture.content, np.uint8), cv2.IMREAD_COLOR)
    middle = pixels.shape[0] // 2
    assert pixels[middle, middle].argmax() == 2 and pixels[middle, -middle].argmax() == 1  # red, then green
    (folder / "000002.png").write_bytes(b"no picture")
    page = page_of(scores, "t", explained(scores), tmp_path)
    assert not elements(page, Picture) and "000002.png cannot be read" in elements(page, Callout)[0].text
    (folder / "000002.png").unlink()
    page = page_of(scores, "t", explained(scores), tmp_path)
    assert "no image of frame 2 of A" in elements(page, Callout)[0].text
    for place, said in ((tmp_path / "no", "does not exist"), (folder / "000001.png", "is not a folder")):
        with pytest.raises(UserError, match=said):
            page_of(scores, "t", explained(scores), place)


@pytest.mark.parametrize("named", ["../other.avi", None], ids=["seqinfo", "beside"])
def test_pictures_of_a_video(named, tmp_path):
    path = tmp_path / ("A.avi" if named is None else "other.avi")
    video = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 10, (96, 96))
    for colour in ((0, 0, 200), (200, 0, 0), (0, 200, 0)):
        video.write(np.full((96, 96, 3), colour, np.uint8))
    video.release()
    if named is not None:
        (tmp_path / "A").mkdir()
        (tmp_path / "A" / "seqinfo.ini").write_text(f"[Sequence]\nname=A\nimDir={named}\n")
    truth = {"A": rows((1, still(30, 1, 3, 4, y=30)))}
    scores = score_tracks(truth, {"A": rows((1, still(30, 1, y=30)), (2, still(30, 3, y=30)))})
    page = page_of(scores, "t", explained(scores), tmp_path)
    (picture,) = elements(page, Picture)
    pixels = cv2.imdecode(np.frombuffer(picture.content, np.uint8), cv2.IMREAD_COLOR)
    middle = pixels.shape[0] // 2
    assert pixels[middle, middle].argmax() == 2 and pixels[middle, -middle].argmax() == 1  # red, then green
    assert f"{path.name}: frame 4 cannot be read" in elements(page, Callout)[0].text


def test_pictures_of_misses(tmp_path):
    """The longest one of each object; of one that nobody ever follows a single crop."""
    truth = {"A": rows((1, still(30, 1, 2, 3, 4, 5, y=30)), (2, still(60, 1, 2, y=60)), (3, still(0, 1, 2)))}
    results = {"A": rows((7, still(30, 1, 3, y=30)), (8, still(48, 1, 2, y=60)), (3, still(0, 1, 2)))}
    folder = tmp_path / "A" / "img1"
    folder.mkdir(parents=True)
    for frame in range(1, 6):
        cv2.imwrite(str(folder / f"{frame:06}.png"), np.full((90, 90, 3), 99, np.uint8))
    scores = score_tracks(truth, results)
    longest, never = elements(page_of(scores, "t", explained(scores), tmp_path), Picture)
    assert longest.caption == "A, object 1: missed in frames 4–5, result 7 before; no result overlaps it"
    assert "object 2: missed in frames 1–2, never followed before; result 8 overlaps it too little" in never.caption
    shapes = [cv2.imdecode(np.frombuffer(one.content, np.uint8), 1).shape for one in (longest, never)]
    assert shapes[0][1] > 2 * shapes[1][1] == 2 * shapes[1][0]


def test_shares_are_per_cent_as_in_the_terminal():
    truth = rows((1, still(0, 1, 2, 3, 4)))
    scores = score_tracks(truth, truth[:3])
    (table, *_) = elements(page_of(scores, "t", []), Table)
    assert dict(zip(table.columns, table.rows[0], strict=True))["MOTA"] == 75
    assert {"FP", "FN", "objects", "tracks"} < set(table.columns)


def test_a_page_without_anything_wrong_and_one_without_anything():
    truth = rows((1, still(0, 1, 2)))
    for results, text in ((truth, "Every object is followed by one result"), (truth[:0], "No identity switched.")):
        scores = score_tracks(truth, results)
        page = page_of(scores, "t", explained(scores))
        assert text in render_markdown(page) and text in render_page(page)
        assert len(elements(page, Timeline)) == 1
    scores = score_tracks(truth[:0], truth[:0])
    assert "No identity switched" in render_markdown(page_of(scores, "t", []))
