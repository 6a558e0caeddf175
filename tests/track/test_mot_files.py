"""MOTChallenge files and folders: what is read, how faults are told, and that what is written reads the same."""

import time

import numpy as np
import pytest

from yolofast import UserError
from yolofast.dataset.faults import FaultKind
from yolofast.track.formats.faults import told
from yolofast.track.formats.folders import find_sequences, read_sequences
from yolofast.track.formats.mot import (
    read_mot,
    read_seqinfo,
    read_seqmap,
    sequence_of_rows,
    write_mot,
    write_seqinfo,
)
from yolofast.track.formats.mot_text import parse_mot
from yolofast.track.formats.sequence import COLUMNS, make_sequence

TRUTH = "1,1,451.67,254.58,51.56,160.57,1,1,0.25\n1,2,376.11,235.91,43.8,117.75,0,7,1\n2,1,450,250,51,160,1,1,1\n"


def parse(text, kind="results", length=None):
    return parse_mot(text, "a.txt", kind, length)


def read(tmp_path, text, kind="truth", **more):
    path = tmp_path / "SEQ.txt"
    path.write_text(text)
    return read_mot(path, kind, **more)


def test_truth_is_read_as_columns(tmp_path):
    found = read(tmp_path, TRUTH)
    assert (found.name, found.length, len(found)) == ("SEQ", 2, 3)
    assert found.frame.tolist() == [1, 1, 2] and found.id.tolist() == [1, 2, 1]
    np.testing.assert_array_equal(found.box[0], [451.67, 254.58, 451.67 + 51.56, 254.58 + 160.57])
    assert found.mark.tolist() == [True, False, True] and found.label.tolist() == [1, 7, 1]
    assert found.visibility.tolist() == [0.25, 1, 1] and found.starts().tolist() == [0, 2, 3]


def test_results_and_detections_have_scores(tmp_path):
    results = read(tmp_path, "1,4,0,0,9,9,0.5,3,-1,-1\n", "results")
    assert (results.id[0], results.score[0], results.label[0], results.mark[0]) == (4, 0.5, 3, True)
    detections = read(tmp_path, "1,-1,0,0,9,9,0.5\n1,-1,1,1,9,9,0.25\n", "detections")
    assert detections.id.tolist() == [-1, -1] and detections.label.tolist() == [-1, -1]


def test_world_coordinates_of_2015_are_no_classes(tmp_path):
    assert read(tmp_path, "1,1,88,99,61,218,1,4.4852,5.5,0\n1,2,1,1,9,9,1,3,5.5,0\n").label.tolist() == [-1, -1]


@pytest.mark.parametrize("text", ["1 1 5 5 9 9\n", "1,1,5,5,9,9\r\n", "\n1, 1, 5, 5, 9, 9", "1\t1.0\t5\t5\t9\t9"])
def test_blanks_windows_lines_and_no_last_line_end(tmp_path, text):
    found = read(tmp_path, text)
    assert found.box.tolist() == [[5, 5, 14, 14]] and found.id.tolist() == [1]


def test_an_empty_file_is_no_tracks(tmp_path):
    assert len(read(tmp_path, "", "results")) == 0 and len(read(tmp_path, "\n\n", "results")) == 0


@pytest.mark.parametrize(
    ("row", "kind", "message"),
    [
        ("2,7,1,1,9", FaultKind.COLUMNS, "5 values instead of 7; the file may have been cut off"),
        ("2,7,1,1,9,9,x", FaultKind.NOT_A_NUMBER, "'x' is not a number"),
        ("2,7,nan,1,9,9,1", FaultKind.NOT_A_NUMBER, "nan is not a finite number"),
        ("2,7,1,1,9,inf,1", FaultKind.NOT_A_NUMBER, "inf is not a finite number"),
        ("2,7,1,1,-9,9,1", FaultKind.BAD_BOX, "a box -9 wide and 9 high"),
        ("0,7,1,1,9,9,1", FaultKind.FRAME, "frame 0 is not a whole number from 1"),
        ("1e12,7,1,1,9,9,1", FaultKind.FRAME, "frame 1e+12 is not a whole number from 1 to 10,000,000"),
        ("2.5,7,1,1,9,9,1", FaultKind.FRAME, "frame 2.5 is not"),
        ("12,7,1,1,9,9,1", FaultKind.FRAME, "frame 12, but there are 10"),
        ("2,-1,1,1,9,9,1", FaultKind.IDENTITY, "identity -1 is not a whole number from 0"),
        ("2,1.5,1,1,9,9,1", FaultKind.IDENTITY, "identity 1.5"),
        ("2,1,1,1,9,9,1", FaultKind.DUPLICATE_IDENTITY, "identity 1 is in frame 2 already, on line 3"),
    ],
)
def test_faults_name_line_value_and_fix(row, kind, message):
    found = parse(f"1,1,1,1,9,9,1\n\n2,1,1,1,9,9,1\n{row}\n", length=10)
    (fault,) = found.faults
    assert (fault.kind, fault.where, fault.line, fault.fatal) == (kind, "a.txt", 4, True)
    assert message in fault.what and fault.fix
    assert len(found.rows[~found.bad]) == 2


def test_all_faults_are_told_at_once_and_rows_can_be_left_out(tmp_path):
    text = "1,1,1,1,9,9,1\n1,1,2,2,9,9,1\n2,1,1,1,-9,9,1\n3,1,1,1\n"
    with pytest.raises(UserError) as refusal:
        read(tmp_path, text)
    assert "3 faults" in str(refusal.value) and "already, on line 1" in str(refusal.value)
    faults = []
    found = read(tmp_path, text, faults=faults, skip_bad=True)
    assert len(found) == 1 and len(faults) == 3
    assert any("1 row omitted, impossible box" in line for line in told(faults))


def test_frames_out_of_order_are_sorted_and_that_is_said(tmp_path):
    faults = []
    found = read(tmp_path, "2,1,5,5,9,9,1\n1,1,4,4,9,9,1\n2,2,6,6,9,9,1\n", faults=faults)
    assert found.frame.tolist() == [1, 2, 2] and found.id.tolist() == [1, 1, 2]
    assert [(fault.kind, fault.line, fault.fatal) for fault in faults] == [(FaultKind.FRAME_ORDER, 2, False)]


def test_boxes_without_area_are_kept_with_a_remark(tmp_path):
    faults = []
    assert len(read(tmp_path, "1,1,5,5,0,9,1\n", faults=faults)) == 1
    assert [fault.fatal for fault in faults] == [False]


def test_faults_of_detections_do_not_ask_for_identities():
    assert not parse("1,-1,1,1,9,9,.5\n1,-1,1,1,9,9,.5\n", "detections").faults


def test_files_that_are_no_text_or_not_there(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\x00\x00")
    with pytest.raises(UserError, match="is not text"):
        read_mot(tmp_path / "a.txt", "truth")
    with pytest.raises(UserError, match=r"does not exist, did you mean .*a\.txt"):
        read_mot(tmp_path / "aa.txt", "truth")


@pytest.mark.parametrize("kind", ["truth", "results", "detections"])
def test_what_is_written_reads_the_same(tmp_path, kind):
    rng = np.random.default_rng(3)
    corner, size = rng.uniform(-50, 900, (60, 2)).round(2), rng.uniform(3, 300, (60, 2)).round(2)
    made = make_sequence(
        "SEQ",
        frame=np.repeat(np.arange(20) + 1, 3),
        id=np.full(60, -1) if kind == "detections" else np.tile(np.arange(3), 20),
        box=np.hstack([corner, corner + size]),
        score=np.ones(60) if kind == "truth" else rng.random(60).round(4),
        label=rng.integers(1, 5, 60),
        mark=rng.random(60) > 0.3 if kind == "truth" else None,
        visibility=rng.random(60).round(3) if kind == "truth" else None,
    )
    path = write_mot(tmp_path / "a" / "SEQ.txt", made, kind)
    again = read_mot(path, kind)
    for name in COLUMNS:
        np.testing.assert_allclose(getattr(again, name), getattr(made, name), atol=1e-9, err_msg=name)
    assert write_mot(tmp_path / "b.txt", again, kind).read_text() == path.read_text()


def test_folders_and_what_seqinfo_says(tmp_path):
    made = make_sequence(
        "MOT-02", frame=[1, 3], id=[1, 1], box=[[0, 0, 5, 5]] * 2, length=600, frame_rate=25.0, width=640
    )
    write_mot(tmp_path / "MOT-02" / "gt" / "gt.txt", made, "truth")
    write_mot(tmp_path / "MOT-02" / "det" / "det.txt", made, "detections")
    write_seqinfo(tmp_path / "MOT-02" / "seqinfo.ini", made)
    write_mot(tmp_path / "flat.txt", made, "truth")
    (tmp_path / "seqmap.txt").write_text("name\nMOT-02\n")
    found = read_sequences(tmp_path, "truth")
    assert list(found) == ["MOT-02", "flat"] and found["flat"].length == 3
    assert (found["MOT-02"].length, found["MOT-02"].frame_rate, found["MOT-02"].width) == (600, 25.0, 640)
    assert read_sequences(tmp_path, "truth", lengths={"flat": 9}, names=["flat"])["flat"].length == 9
    assert list(find_sequences(tmp_path / "MOT-02", "detections")) == ["MOT-02"]
    assert list(find_sequences(tmp_path / "MOT-02" / "gt" / "gt.txt", "truth")) == ["MOT-02"]
    assert read_seqmap(tmp_path / "seqmap.txt") == ("MOT-02",)
    with pytest.raises(UserError, match="has no sequence MOT-2, did you mean 'MOT-02'"):
        read_sequences(tmp_path, "truth", names=["MOT-2"])


def test_results_may_lie_in_data(tmp_path):
    made = make_sequence("A", frame=[1], id=[1], box=[[0, 0, 5, 5]])
    write_mot(tmp_path / "data" / "A.txt", made, "results")
    assert list(find_sequences(tmp_path, "results")) == ["A"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="holds no sequences"):
        find_sequences(tmp_path / "empty", "results")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[Sequence]\nseqLength=x\n", "seqLength is 'x'"),
        ("[Sequence]\nframeRate=0\n", "frameRate is '0'"),
        ("seqLength=3\n", "is not an ini file"),
        ("[Other]\nseqLength=3\n", "no section"),
    ],
)
def test_bad_seqinfo(tmp_path, text, message):
    (tmp_path / "seqinfo.ini").write_text(text)
    with pytest.raises(UserError, match=message):
        read_seqinfo(tmp_path / "seqinfo.ini")


def test_arrays_are_checked_like_files():
    assert len(sequence_of_rows("a", np.zeros((0, 9)), "truth")) == 0
    with pytest.raises(UserError, match="row 2: identity 1 is in frame 1 already, in row 1"):
        sequence_of_rows("a", [[1, 1, 0, 0, 5, 5], [1, 1, 0, 0, 5, 5]], "truth")
    with pytest.raises(UserError, match=r"have the shape \(3,\)"):
        sequence_of_rows("a", [1, 2, 3], "truth")
    with pytest.raises(UserError, match="2 of id for 1 boxes"):
        make_sequence("a", frame=[1], id=[1, 2], box=[[0, 0, 1, 1]])
    with pytest.raises(UserError, match="has 20,000,000 frames"):
        make_sequence("a", frame=[1], id=[1], box=[[0, 0, 1, 1]], length=20_000_000)
    with pytest.raises(UserError, match="frame 3, but its length is 2"):
        make_sequence("a", frame=[3], id=[1], box=[[0, 0, 1, 1]], length=2)


@pytest.mark.slow
def test_a_large_file_is_read_at_the_speed_of_loadtxt():
    """100,000 rows: a fifth of a second; the limit is what a busy machine may take."""
    lines = [f"{n // 50 + 1},{n % 50},{n % 700}.25,{n % 400}.5,30.125,60.75,0.9,-1,-1,-1" for n in range(100_000)]
    start = time.process_time()
    found = parse("\n".join(lines))
    assert time.process_time() - start < 1.5
    assert len(found.rows) == 100_000 and not found.faults
