"""`sequences.yaml`: what is found by it, and what is said about one that is wrong."""

import numpy as np
import pytest

from yolofast import UserError
from yolofast.track.formats.sequences_yaml import read_sequences_yaml, write_sequences_yaml


def sequence(folder, name="A", info="", truth="1,1,0,0,9,9,1,3,1\n"):
    (folder / name / "gt").mkdir(parents=True)
    (folder / name / "gt" / "gt.txt").write_text(truth)
    text = f"[Sequence]\nname={name}\nseqLength=3\nframeRate=10\n{info}"
    (folder / name / "seqinfo.ini").write_text(text)
    return folder / name


def written(folder, text):
    path = folder / "sequences.yaml"
    path.write_text(text)
    return path


def test_what_is_written_is_read(tmp_path):
    for name in ("A", "B"):
        (sequence(tmp_path, name) / "img1").mkdir()
    path = write_sequences_yaml(tmp_path / "sequences.yaml", ["cat", "3E5", "no"], ["A", "B"], "made for a test")
    found = read_sequences_yaml(path)
    assert path.read_text().startswith("# made for a test\n")
    assert found.names == {0: "cat", 1: "3E5", 2: "no"}
    assert [one.name for one in found.sequences] == ["A", "B"]
    first = found.sequences[0]
    assert (first.source, first.detections, first.times()) == (tmp_path / "A" / "img1", None, None)
    truth = first.read_truth()
    assert (truth.name, truth.length, truth.frame_rate, truth.classes[0]) == ("A", 3, 10, "cat")
    assert read_sequences_yaml(tmp_path).names == found.names  # a folder means the file in it


def test_all_that_are_there_and_a_seqmap(tmp_path):
    for name in ("B", "A", "C"):
        sequence(tmp_path / "train", name)
    path = written(tmp_path, "path: train\nnames: {1: pedestrian}\n")
    found = read_sequences_yaml(path)
    assert [one.name for one in found.sequences] == ["A", "B", "C"] and found.names == {1: "pedestrian"}
    (tmp_path / "train" / "seqmap.txt").write_text("name\nC\nA\n")
    listed = read_sequences_yaml(written(tmp_path, "path: train\nsequences: seqmap.txt")).sequences
    assert [one.name for one in listed] == ["C", "A"]


def test_videos_and_times(tmp_path):
    own = sequence(tmp_path, "A", info="imDir=../film.mp4\n")
    (tmp_path / "film.mp4").write_bytes(b"")
    sequence(tmp_path, "B")
    (tmp_path / "B.avi").write_bytes(b"")
    (own / "times.txt").write_text("0\n0.1\n0.35\n")
    first, second = read_sequences_yaml(written(tmp_path, "sequences: [A, B]")).sequences
    assert first.source == tmp_path / "film.mp4" and second.source == tmp_path / "B.avi"
    np.testing.assert_array_equal(first.times(), [0, 0.1, 0.35])


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("sequence: [A]", 1, "did you mean 'sequences'?"),
        ("path: nowhere\nsequences: [A]", 1, "no such folder"),
        ("path: 3\nsequences: [A]", 1, "path must be a folder"),
        ("names: cat\nsequences: [A]", 1, "names must be a list"),
        ("names: {-1: cat}\nsequences: [A]", 1, "names must be a list"),
        ("names: [cat,\n  cat]\nsequences: [A]", 1, "twice"),
        ("sequences:\n- A\n- Aa\n- Bb", 3, "2 of 3 sequences are not there"),
        ("sequences:\n- A\n- A", 3, "twice"),
        ("sequences:\n- A\n- [A]", 3, "must be names of folders"),
        ("sequences: []", 1, "lists no sequences"),
        ("sequences:\n- A\n- ./A", 3, "both called A"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path, text, line, message):
    sequence(tmp_path)
    with pytest.raises(UserError) as error:
        read_sequences_yaml(written(tmp_path, text))
    assert message in str(error.value) and error.value.line == line and error.value.fix


def test_a_missing_file_an_empty_folder_and_bad_times(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        read_sequences_yaml(tmp_path / "sequences.yml")
    with pytest.raises(UserError, match="has no folders with a"):
        read_sequences_yaml(written(tmp_path, "names: [cat]"))
    own = sequence(tmp_path)
    (own / "gt" / "gt.txt").unlink()
    (one,) = read_sequences_yaml(written(tmp_path, "sequences: A")).sequences
    with pytest.raises(UserError, match="has no gt"):
        one.read_truth()
    for text, message in (("0\nsoon\n2", "not a time"), ("0\n2\n1", "1 follows 2"), ("0\n1", "2 times, but")):
        (own / "times.txt").write_text(text)
        with pytest.raises(UserError, match=message):
            one.times()
