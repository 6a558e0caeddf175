"""Label rows: what is read, and how every fault is named."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yolofast.dataset.faults import FaultKind
from yolofast.dataset.index_cache import MOST_LISTED
from yolofast.dataset.yolo_labels import parse_labels


def parse(text, nc=2):
    return parse_labels(text, nc, "labels/a.txt", "images/a.jpg")


def test_polygons_are_kept_and_boxes_are_around_them():
    # Nine values on one row make the whole file polygons, so the triangle's seven values are one too.
    rows = parse("0 .1 .2 .3 .2 .3 .6 .1 .6\n1 0 0 1 0 .5 .5")
    np.testing.assert_allclose(rows.boxes, [[0.2, 0.4, 0.2, 0.4], [0.5, 0.25, 1, 0.5]])
    assert rows.polygons == [[0.1, 0.2, 0.3, 0.2, 0.3, 0.6, 0.1, 0.6], [0, 0, 1, 0, 0.5, 0.5]]
    assert rows.labels == [0, 1]
    assert not rows.faults


def test_windows_lines_and_float_classes_are_accepted():
    rows = parse("1.0 .5 .5 .5 .5\r\n\r\n")
    assert (rows.labels, rows.boxes, rows.polygons) == ([1], [(0.5, 0.5, 0.5, 0.5)], [[]])


@pytest.mark.parametrize(
    ("row", "kind", "message"),
    [
        ("0 .5 .5 .5", FaultKind.COLUMNS, "4 values instead of 5"),
        ("0 .5 .5 .5 .5 .9", FaultKind.COLUMNS, "6 values instead of 5"),
        ("0,.5,.5,.5,.5", FaultKind.COLUMNS, "1 value instead"),
        ("0 .5 .5 .5 x", FaultKind.NOT_A_NUMBER, "'x' is not a number"),
        ("0 .5 ,5 .5 .5", FaultKind.NOT_A_NUMBER, "',5' is not a number"),
        ("0_0 .5 .5 .5 .5", FaultKind.NOT_A_NUMBER, "'0_0' is not a number"),
        ("0 .5 .5 .5 1.2", FaultKind.OUT_OF_RANGE, "1.2 is outside 0 to 1"),
        ("0 -.1 .5 .5 .5", FaultKind.OUT_OF_RANGE, "-.1 is outside"),
        ("0 nan .5 .5 .5", FaultKind.NOT_A_NUMBER, "'nan' is not a finite number"),
        ("2 .5 .5 .5 .5", FaultKind.UNKNOWN_CLASS, "class 2 is not a whole number from 0 to 1"),
        ("-1 .5 .5 .5 .5", FaultKind.UNKNOWN_CLASS, "class -1"),
        ("0.5 .5 .5 .5 .5", FaultKind.UNKNOWN_CLASS, "class 0.5"),
        ("nan .5 .5 .5 .5", FaultKind.NOT_A_NUMBER, "'nan' is not a finite number"),
        ("-inf .5 .5 .5 .5", FaultKind.NOT_A_NUMBER, "'-inf' is not a finite number"),
        ("0 " + ".5 " * 9, FaultKind.COLUMNS, "10 values in a file of polygons"),  # an odd number of coordinates
    ],
)
def test_faults_name_file_line_value_and_fix(row, kind, message):
    (fault,) = parse("\n" + row).faults
    assert message in fault.what
    assert (fault.kind, fault.where, fault.line, fault.image) == (kind, "labels/a.txt", 2, "images/a.jpg")
    assert fault.fatal and fault.fix


def test_of_many_warnings_the_first_are_listed_and_the_rest_counted():
    rows = parse("0 .5 .5 .5 .5\n" * 1001 + "0 .5 .5 1 1.5\n" + "1 .5 .5 .5 .5\n")
    assert rows.all_faults()[-1].what == "900 more of this kind are not listed"
    kinds = [(fault.kind, fault.fatal) for fault in rows.all_faults()]
    assert kinds.count((FaultKind.DUPLICATE_ROW, False)) == MOST_LISTED + 1
    assert kinds.count((FaultKind.OUT_OF_RANGE, True)) == 1, "what comes behind them is found"
    assert len(rows.labels) == 2


def test_a_file_of_wrong_rows_is_read_no_further():
    faults = parse("x\n" * 1000 + "7 .5 .5 .5 .5\n").all_faults()
    assert {fault.kind for fault in faults} == {FaultKind.COLUMNS} and len(faults) == MOST_LISTED + 1
    assert faults[-1].what == "more of this kind are not listed" and faults[-1].fatal and faults[-1].line is None


def test_every_fault_of_a_file_is_found():
    faults = parse("0 .5 .5 .5\n0 .5 .5 .5 .5\n7 .5 .5 .5 .5\n0 .5 .5 .5 9").faults
    assert [fault.line for fault in faults] == [1, 3, 4]


def test_a_box_in_a_file_of_polygons_could_mean_two_things():
    (fault,) = parse("0 .5 .5 .5 .5\n0 .1 .1 .2 .1 .2 .2 .1 .2").faults
    assert (fault.line, fault.kind) == (1, FaultKind.COLUMNS)


def test_a_repeated_row_counts_once_and_is_a_warning():
    rows = parse("0 .5 .5 .2 .2\n1 .5 .5 .2 .2\n0 0.50 .5 .2 .2")
    assert rows.labels == [0, 1]
    (fault,) = rows.faults
    assert (fault.kind, fault.line, fault.fatal) == (FaultKind.DUPLICATE_ROW, 3, False)
    assert "line 1" in fault.what


def test_a_box_that_reaches_out_is_clipped_with_a_warning():
    rows = parse("0 .5 .5 .5 .5\n1 .9 .5 .6 .4")  # right edge at 0.9 + 0.3
    np.testing.assert_allclose(rows.boxes, [[0.5, 0.5, 0.5, 0.5], [0.8, 0.5, 0.4, 0.4]])
    (fault,) = rows.faults
    assert (fault.kind, fault.fatal) == (FaultKind.OUT_OF_RANGE, False)
    assert (fault.where, fault.line) == ("labels/a.txt", 2)
    assert "its right edge is at 1.2; it is clipped" in fault.what


def test_every_edge_outside_is_named():
    (fault,) = parse("0 .1 .9 .4 .4").faults
    assert "its left edge is at -0.1, its bottom edge is at 1.1;" in fault.what


def test_what_rounding_explains_is_left_as_it_is():
    rows = parse("0 .7502 .5 .501 1")  # right edge at 1.0007
    assert (rows.boxes, rows.faults) == ([(0.7502, 0.5, 0.501, 1.0)], [])


def test_without_classes_any_number_is_one():
    assert parse("7 .5 .5 .5 .5", nc=None).labels == [7]
    assert parse("-1 .5 .5 .5 .5", nc=None).faults


fields = st.one_of(st.floats(0, 1).map(str), st.integers(-2, 4).map(str), st.text("0.1e-+nanif_x\t", max_size=6))
texts = st.lists(st.lists(fields, max_size=12).map(" ".join), max_size=4).map("\n".join)


@pytest.mark.slow
@settings(deadline=None)  # busy machines are slow, not wrong
@given(st.one_of(st.text(), texts))
def test_any_text_gives_boxes_or_faults(text):
    rows = parse(text, nc=3)
    assert all(label in (0, 1, 2) for label in rows.labels)
    assert all(0 <= np.float32(value) <= 1 for box in rows.boxes for value in box)
    lines = sum(bool(line.strip()) for line in text.split("\n"))
    clipped = sum(fault.kind is FaultKind.OUT_OF_RANGE and not fault.fatal for fault in rows.faults)
    assert len(rows.labels) + len(rows.faults) - clipped == lines
