"""Sequences that a stranger has written: names that lead elsewhere, frames and names without end."""

import io
import json
import zipfile

import numpy as np
import pytest

from tests.hostile.cost import cheap, refused
from yolofast import UserError, score_tracks
from yolofast.cli import main
from yolofast.track.formats.coco_results import read_coco_results
from yolofast.track.formats.detections import read_own
from yolofast.track.formats.mot import read_seqinfo, read_seqmap
from yolofast.track.formats.mot_text import parse_mot
from yolofast.track.formats.read_detections import read_all_detections
from yolofast.track.formats.sequence import MOST_FRAMES
from yolofast.track.formats.video_json import read_video_json
from yolofast.track.pipeline import Follower, StageTimes
from yolofast.track.stored_run import recalled
from yolofast.track.trackers.table import build_tracker

ROW = "1,-1,10,10,20,20,0.9\n"
NAMES = ["../../evil", "/tmp/evil", "..", "a/../../b", "a\\b", "a\0b", "x" * 5000]


def video_json(path, names=("v",), frame=1, more=()):
    content = {
        "videos": [{"id": n, "name": name} for n, name in enumerate(names)],
        "images": [{"id": n, "video_id": n, "frame_id": frame, "file_name": "x"} for n in range(len(names))],
        "annotations": list(more), "categories": [{"id": 1, "name": "a"}],
    }  # fmt: skip
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("name", NAMES)
def test_names_that_lead_elsewhere(tmp_path, name):
    (tmp_path / "seqinfo.ini").write_text(f"[Sequence]\nname={name}\nseqLength=1\n")
    (tmp_path / "results.json").write_text(
        json.dumps([{"image_id": f"{name}_0", "category_id": 0, "bbox": [1, 1, 5, 5], "score": 0.9}])
    )
    readers = (
        (read_seqinfo, tmp_path / "seqinfo.ini"), (read_coco_results, tmp_path / "results.json"),
        (lambda path: read_video_json(path, "detections"), video_json(tmp_path / "v.json", [name])),
    )  # fmt: skip
    for read, path in readers:
        with pytest.raises(UserError, match="a sequence is called"):
            read(path)


def test_no_command_writes_outside_of_its_folder(tmp_path, capsys):
    (tmp_path / "S" / "det").mkdir(parents=True)
    (tmp_path / "S" / "det" / "det.txt").write_text(ROW)
    (tmp_path / "S" / "seqinfo.ini").write_text(f"[Sequence]\nname={tmp_path / 'evil'}\n")
    words = ["track", "--detections", str(tmp_path / "S"), "--project", str(tmp_path / "out")]
    assert main([*words, "--device", "cpu", "--nosave"]) == 2
    assert "a sequence is called" in capsys.readouterr().err
    assert not list(tmp_path.glob("evil*"))


def test_a_row_of_a_far_frame_costs_nothing(tmp_path):
    (tmp_path / "det.txt").write_text(f"{ROW}{MOST_FRAMES},-1,10,10,20,20,0.9\n")
    with cheap():
        (stored,) = read_all_detections(tmp_path / "det.txt").values()
        follower = Follower(lambda rate: build_tracker("bytetrack", frame_rate=rate), StageTimes())
        numbers = [one.place.number for one in follower.follow_here(recalled(stored, None, None, StageTimes()))]
    assert numbers[0] == 1 and numbers[-1] == MOST_FRAMES and len(numbers) < 100


@pytest.mark.parametrize("tracker", ["bytetrack", "botsort", "ocsort", "boosttrack"])
@pytest.mark.parametrize("faithful", [False, True])
def test_what_is_left_out_changes_no_track(tmp_path, monkeypatch, tracker, faithful):
    def rows(first):
        return "".join(f"{first + n},-1,{100 + n},50,40,80,0.9\n" for n in range(30))

    (tmp_path / "det.txt").write_text(rows(2) + rows(900) + rows(2000))
    (stored,) = read_all_detections(tmp_path / "det.txt").values()

    def tracks():
        follower = Follower(lambda rate: build_tracker(tracker, frame_rate=rate, faithful=faithful), StageTimes())
        seen = recalled(stored, None, None, StageTimes())
        every = list(follower.follow_here(seen))
        rows = [(one.place.number, one.tracks.ids.tolist(), one.tracks.boxes.tolist()) for one in every]
        return len(every), [row for row in rows if row[1]]

    few, with_gaps = tracks()
    monkeypatch.setattr("yolofast.track.stored_run._MANY_EMPTY", 10**9)
    every, without = tracks()
    assert few < every == stored.length
    assert with_gaps == without and without


def test_frames_of_many_sequences(tmp_path):
    with refused("have more than 10,000,000 frames in all"):
        read_video_json(video_json(tmp_path / "v.json", [f"v{n}" for n in range(9)], MOST_FRAMES), "truth")
    for n in range(3):
        (tmp_path / "d" / f"S{n}" / "det").mkdir(parents=True)
        (tmp_path / "d" / f"S{n}" / "det" / "det.txt").write_text(f"{MOST_FRAMES},-1,10,10,20,20,0.9\n")
    with refused("have more than 10,000,000 frames in all"):
        read_all_detections(tmp_path / "d")


def test_many_videos_images_and_names(tmp_path):
    images = [{"id": n, "video_id": 1, "frame_id": n, "file_name": "a"} for n in range(20_000)]
    (tmp_path / "images.json").write_text(json.dumps({"images": images, "videos": [{"id": 1, "name": "v"}]}))
    (tmp_path / "r.json").write_text(json.dumps([{"image_id": 5, "category_id": 0, "bbox": [1, 1, 5, 5], "score": 1}]))
    with cheap():
        found = read_coco_results(tmp_path / "r.json", images=tmp_path / "images.json")
    assert found["v"]["frame"].tolist() == [6]  # numbers from 0
    (tmp_path / "map.txt").write_text("".join(f"s{n}\n" for n in range(60_000)))
    with cheap():
        assert len(read_seqmap(tmp_path / "map.txt")) == 60_000
        assert (
            len(read_video_json(video_json(tmp_path / "v.json", [f"v{n}" for n in range(20_000)]), "truth")) == 20_000
        )


def test_rows_of_all_widths():
    text = "".join(",".join(["1"] * width) + "\n" for width in range(7, 900)) + "1,2,3\n" * 200_000
    with cheap():
        assert len(parse_mot(text, "a.txt", "detections").faults) > 200_000


@pytest.mark.parametrize("text", ["name" + " " * 200_000 + "x", "".join(f"[s{n}]\n" for n in range(100_000))])
def test_seqinfo_of_spaces_or_sections(tmp_path, text):
    (tmp_path / "seqinfo.ini").write_text(f"[Sequence]\n{text}\n")
    with refused("too many for a seqinfo.ini"):
        read_seqinfo(tmp_path / "seqinfo.ini")


def test_stored_detections_that_swell(tmp_path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (125000000,)}\n"
    start = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("times.npy", "w") as file:
            file.write(start)
            for _ in range(400):
                file.write(bytes(10**6))
        for name in ("frame", "box", "score", "label"):
            archive.writestr(f"{name}.npy", start)
    (tmp_path / "x.npz").write_bytes(content.getvalue())
    with refused("bytes of memory"):
        read_own(tmp_path / "x.npz")


def test_arrays_that_nobody_asked_for_are_not_read(tmp_path):
    about = {"length": 1, "frame_rate": 30.0, "width": 0, "height": 0, "name": "v", "names": np.array(["a"])}
    columns = {"frame": [1], "box": [[1.0, 1, 5, 5]], "score": [0.9], "label": [0], "times": [0.0]}
    np.savez(tmp_path / "x.npz", **about, **columns, other=np.array([{}], object))
    assert len(read_own(tmp_path / "x.npz")) == 1


@pytest.mark.parametrize("key", ["score", "bbox", "visibility", "track_id", "conf"])
@pytest.mark.parametrize("number", [10**400, -(10**400), float("inf"), [], "x", None])
def test_numbers_that_are_none(tmp_path, key, number):
    row = {"image_id": 0, "track_id": 1, "category_id": 1, "bbox": [1, 1, 5, 5], "score": 0.9}
    row[key] = [1, 1, number, 5] if key == "bbox" else number
    about = {"frame_rate": number, "width": number, "height": number}
    content = {"videos": [{"id": 0, "name": "v", **about}], "categories": [], "annotations": [row]}
    content["images"] = [{"id": 0, "video_id": 0, "frame_id": 1, "file_name": "x", **about}]
    (tmp_path / "v.json").write_text(json.dumps(content))
    found = read_video_json(tmp_path / "v.json", "detections", faults=[], skip_bad=True)["v"]
    assert (found.frame_rate, found.width, found.height) == (None, None, None)
    (tmp_path / "r.json").write_text(json.dumps([{**row, "image_id": "v_0"}]))
    assert "v" in read_coco_results(tmp_path / "r.json", faults=[], skip_bad=True) or key in ("score", "bbox")


ODD = {
    "length": np.inf, "frame_rate": np.array("x"), "width": np.nan, "every": np.zeros(3), "names": np.zeros(2),
    "made": np.array("[" * 100_000),
}  # fmt: skip


@pytest.mark.parametrize("key", ODD)
def test_stored_values_of_other_kinds(tmp_path, key):
    about = {"length": 1, "frame_rate": 30.0, "width": 0, "height": 0, "name": "v", "names": np.array(["a"])}
    columns = {"frame": [1], "box": [[1.0, 1, 5, 5]], "score": [0.9], "label": [0], "times": [0.0]}
    np.savez(tmp_path / "x.npz", **{**about, **columns, key: ODD[key]})
    if key == "names":
        assert read_own(tmp_path / "x.npz").names == ("0.0", "0.0")
        return
    with pytest.raises(UserError, match="is not a file of detections, or is damaged"):
        read_own(tmp_path / "x.npz")


def test_arrays_whose_header_never_closes(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("frame.npy", b"\x93NUMPY\x02\x00" + (9000).to_bytes(4, "little") + b"(" * 9000)
    with refused("is not a file of detections, or is damaged"):
        read_own(tmp_path / "x.npz")


def boxes_in_one_place(frames, identities):
    return np.array(
        [[frame, identity, 1, 1, 5, 5, 1, 1, 1] for frame, identity in zip(frames, identities, strict=True)]
    )


CROWDS = {
    "a frame": ([1] * 3000, range(1, 3001), "frame 1 has 9,000,000 pairs of boxes"),
    "many frames": ([*range(1, 21)] * 1000, [n // 20 + 1 for n in range(20_000)], "more pairs of boxes overlap"),
}


@pytest.mark.parametrize(("frames", "identities", "words"), CROWDS.values(), ids=CROWDS)
def test_crowds_without_end(frames, identities, words):
    """Each box meets all others of its frame: files of 400 kB took gigabytes."""
    crowd = boxes_in_one_place(frames, identities)
    with refused(words):
        score_tracks(crowd, crowd)


def test_identities_that_all_meet():
    """In a chain, from frame to frame: a matrix of all with all would take gigabytes."""
    frames = range(1, 20_000)
    truth = boxes_in_one_place(frames, [n // 2 + 1 for n in frames])
    results = boxes_in_one_place(frames, [(n + 1) // 2 + 1 for n in frames])
    with refused("identities of the truth .* all meet"):
        score_tracks(truth, results)
