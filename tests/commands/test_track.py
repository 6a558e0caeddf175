"""`yolofast track` as typed: videos, folders, stored detections, and explanations."""

import json
import os
import shlex
import shutil
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.detect.seeing import picture, save_seeing, save_video, video_facts
from tests.patience import wait_until
from tests.track.golden import beside
from tests.track.scenes import still_images
from yolofast import Detector, UserError
from yolofast.cli import main
from yolofast.track.formats.detections import make_detections, write_detections
from yolofast.track.formats.read_detections import read_detections
from yolofast.track.trackers.table import build_tracker

EASY = ("--track", "track_high_thresh=0.2", "new_track_thresh=0.2")


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return save_seeing(tmp_path_factory.mktemp("weights") / "some.pt", img_size=64)


@pytest.fixture
def det_txt(tmp_path):
    """Two things that move to the right, one of them missed for two frames, and a doubtful one."""
    rows = []
    for frame in range(1, 9):
        rows.append(f"{frame},-1,{10 + 4 * frame},20,30,40,0.9")
        if frame not in (4, 5):
            rows.append(f"{frame},-1,{100 + 4 * frame},20,30,40,0.8")
        rows.append(f"{frame},-1,{100 + 20 * frame},120,10,10,0.05")
    path = tmp_path / "walk.txt"
    path.write_text("\n".join(rows) + "\n")
    return path


def track(project, *words):
    return main(["track", "--project", str(project), *map(str, words)])


def rows_of(path):
    return np.loadtxt(path, delimiter=",", ndmin=2)


@pytest.mark.slow
def test_a_video_gets_results_json_and_a_drawn_video(weights, tmp_path, capsys):
    video = save_video(tmp_path / "street.mp4", frames=7, fps=12)
    words = ("--source", video, "--weights", weights, "--device", "cpu", "--max-det", "5", *EASY)
    more = ("--show-lost", "--line", "0,0.5,1,0.5", "--zone", "all=0,0,1,0,1,1,0,1", "--save-detections")
    assert track(tmp_path / "out", *words, *more) == 0
    folder = tmp_path / "out" / "exp"
    assert video_facts(folder / "street.mp4") == (7, pytest.approx(12))
    found = json.loads((folder / "street.json").read_text())
    assert [frame["frame"] for frame in found["frames"]] == [1, 2, 3, 4, 5, 6, 7]
    assert found["made_by"] == "yolofast track" and found["frames"][1]["time"] == pytest.approx(1 / 12, abs=1e-3)
    assert sum(found["counts"]["identities"].values()) == len({row[1] for row in rows_of(folder / "street.txt")})
    assert set(found["counts"]["zones"]["all"]) == {"inside", "entered"}
    said = capsys.readouterr().out
    for word in ("reading", "detector", "camera motion", "tracker", "drawing", "together", "line 1: "):
        assert word in said
    stored = read_detections(folder / "detections")
    assert stored.length == 7 and stored.frame_rate == 12 and stored.warps is not None
    # With the camera's motion stored, not even the images are needed for the same tracks.
    assert track(tmp_path / "blind", "--detections", folder / "detections", *EASY) == 0
    assert (tmp_path / "blind" / "exp" / "street.txt").read_text() == (folder / "street.txt").read_text()
    # The same detections without the network give the same tracks; drawn on the video too.
    again = ("--detections", folder / "detections", "--source", video, *EASY)
    assert track(tmp_path / "again", *again) == 0
    assert track(tmp_path / "still", *again[:-3], "--track", "cmc-method=none") == 0
    assert video_facts(tmp_path / "again" / "exp" / "street.mp4")[0] == 7
    assert (tmp_path / "again" / "exp" / "street.txt").read_text() == (folder / "street.txt").read_text()


@pytest.mark.slow
def test_folders_are_tracked_together(weights, tmp_path, capsys):
    folders = [still_images(tmp_path / name, count) for name, count in (("left", 4), ("right", 2))]
    assert track(tmp_path / "out", "--source", *folders, "--weights", weights, "--device", "cpu", *EASY) == 0
    for name, count in (("left", 4), ("right", 2)):
        assert video_facts(tmp_path / "out" / "exp" / f"{name}.mp4") == (count, pytest.approx(30))
        assert set(rows_of(tmp_path / "out" / "exp" / f"{name}.txt")[:, 0]) == set(range(1, count + 1))
    assert "left " in capsys.readouterr().out


def test_stored_detections_need_no_network(det_txt, tmp_path, capsys):
    assert track(tmp_path / "out", "--detections", det_txt, "--tracker", "bytetrack") == 0
    rows = rows_of(tmp_path / "out" / "exp" / "walk.txt")
    assert set(rows[:, 1]) == {1, 2} and set(rows[rows[:, 1] == 2, 0]) == {1, 2, 3, 6, 7, 8} and set(rows[:, 7]) == {-1}
    assert "walk" in capsys.readouterr().out
    frame = json.loads((tmp_path / "out" / "exp" / "walk.json").read_text())["frames"][3]
    assert [one["id"] for one in frame["lost"]] == [2] and frame["detections"] == 2


@pytest.mark.slow
def test_published_results_are_reproduced(tmp_path):
    """With given warps and features too, which are stored beside the detections."""
    golden = beside()
    if golden is None:
        pytest.skip("there is no shared/golden_tracking beside the repository")
    compared = 0
    for path in sorted((golden / "trackers" / "expected").glob("SYNC-71.b*.json")):
        case = json.loads(path.read_text())
        folder = golden / "trackers"
        stored = read_detections(folder / case["detections"])
        more = {}
        if "warps" in case:
            more["warps"] = [np.eye(2, 3), *json.loads((folder / case["warps"]).read_text())["warps"]]
        if "features" in case:
            frames = json.loads((folder / case["features"]).read_text())["frames"]
            more["features"] = [vector for vectors in frames for vector in vectors]
        columns = {key: getattr(stored, key) for key in ("frame", "box", "score")}
        given = make_detections("SYNC-71", **columns, length=len(case["frames"]), **more)
        write_detections(tmp_path / "SYNC-71.npz", given)
        settings = [f"{key}={value}" for key, value in case["settings"].items() if key != "frame_rate"]
        words = ("--detections", tmp_path / "SYNC-71.npz", "--tracker", case["tracker"], "--faithful")
        assert track(tmp_path / path.stem, *words, "--track", *settings) == 0
        found = rows_of(tmp_path / path.stem / "exp" / "SYNC-71.txt")
        wanted = [[number, *row[:5]] for number, rows in enumerate(case["frames"], 1) for row in rows]
        np.testing.assert_allclose(found[:, :6], wanted, atol=1.01e-4)
        compared += 1
    assert compared == 5


@pytest.mark.slow
def test_why_a_box_was_dropped(det_txt, tmp_path, capsys):
    assert track(tmp_path / "out", "--detections", det_txt, "--tracker", "bytetrack", "--explain", "4") == 0
    said = capsys.readouterr().out
    assert "detection 0 (0.900) at 26.0 20.0 56.0 60.0 was matched to track 1 in the first association: cost" in said
    assert "detection 1 (0.050) at 180.0 120.0 190.0 130.0 was dropped: its score 0.050 is not above" in said
    assert "track 2 (tracked), expected at " in said and ", was not seen and is kept as lost. In the first" in said
    assert not (tmp_path / "out").exists()
    assert track(tmp_path / "out", "--detections", det_txt, "--explain", "4", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["frame"] == 4 and [one["outcome"] for one in found["detections"]] == ["matched", "dropped"]
    matched = found["detections"][0]
    assert matched["stage"] == "first" and matched["cost"] <= matched["limit"] == 0.8 and matched["other"] == 1
    assert matched["box"] == [26, 20, 56, 60] and matched["score"] == 0.9 and matched["name"] == "class 0"
    seen, lost = found["tracks"]
    assert seen["number"] == 1 and seen["state"] == "tracked" and seen["box"] == pytest.approx(matched["box"], abs=4)
    assert lost["outcome"] == "lost" and lost["box"] == pytest.approx([116, 20, 146, 60], abs=5)
    assert track(tmp_path / "out", "--detections", det_txt, "--explain", "5", "--json") == 0
    assert [one["state"] for one in json.loads(capsys.readouterr().out)[0]["tracks"]] == ["tracked", "lost"]
    assert track(tmp_path / "out", "--detections", det_txt, "--explain", "9") == 2
    assert "there is no frame 9: walk has 8 frames" in capsys.readouterr().err


def _appearing(folder):
    """One object is always seen, one not in frame 8, and one only in frame 6."""
    rows = [f"{frame},-1,{100 + frame},50,40,80,0.9" for frame in range(1, 13)]
    rows += [f"{frame},-1,{500 + frame},50,40,80,0.9" for frame in range(1, 13) if frame != 8]
    path = folder / "seen.txt"
    path.write_text("\n".join([*rows, "6,-1,300,50,40,80,0.9"]) + "\n")
    return path


def test_a_matched_box_that_is_not_shown_and_a_track_that_waits_are_told_apart_from_dropped_ones(tmp_path, capsys):
    path = _appearing(tmp_path)
    assert track(tmp_path / "out", "--detections", path, "--tracker", "ocsort", "--explain", "9") == 0
    said = capsys.readouterr().out
    assert "was matched to track 2 in the first association: cost 0.000, within the limit 0.700." in said
    assert " It is shown once it was matched in min_hits 3 frames in a row." in said
    assert "track 3 (not shown), expected at 300.0 50.0 340.0 130.0, was not seen and is kept as lost." in said


@pytest.mark.parametrize("name", ["bytetrack", "botsort", "ocsort", "boosttrack", "boosttrack++"])
def test_an_identity_that_is_seen_again_counts_once(tmp_path, name):
    out = tmp_path / "out"
    words = ("--detections", _appearing(tmp_path), "--tracker", name, "--zone", "0,0,900,0,900,900,0,900")
    assert track(out, *words, "--nosave") == 0
    counts = json.loads((out / "exp" / "seen.json").read_text())["counts"]
    identities = len({*rows_of(out / "exp" / "seen.txt")[:, 1]})
    assert sum(counts["identities"].values()) == identities == sum(counts["zones"]["zone 1"]["entered"].values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bytetrack", "botsort", "ocsort", "boosttrack", "boosttrack++"])
def test_every_detection_and_track_has_a_fate(det_txt, tmp_path, capsys, name):
    for frame in (1, 4, 6):
        words = ("--detections", det_txt, "--tracker", name, "--explain", frame, "--json")
        assert track(tmp_path / "out", *words) == 0
        (found,) = json.loads(capsys.readouterr().out)
        assert len(found["detections"]) == (2 if frame == 4 else 3)
        outcomes = {one["outcome"] for one in found["detections"]}
        assert outcomes <= {"matched", "began a track", "dropped"}
        assert {one["outcome"] for one in found["tracks"]} <= {"matched", "lost", "given up"}
        assert {one["state"] for one in found["tracks"]} <= {"tracked", "lost", "not shown"}
        assert all(len(one["box"]) == 4 for one in (*found["detections"], *found["tracks"]))
        assert len(found["tracks"]) >= (0 if frame == 1 else 2)
        longest = max(len(part.split()) for one in found["detections"] for part in one["sentence"].split(". "))
        assert longest <= 30


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing to track is given"),
        (("--detections", "DET", "--tracker", "bytetrak"), "did you mean 'bytetrack'"),
        (("--detections", "DET", "--track", "track_bufer=3"), "did you mean 'track_buffer'"),
        (("--detections", "DET", "--track", "track_buffer"), "--track has 'track_buffer'"),
        (("--detections", "DET", "--track", "mot20=3"), "true or false"),
        (("--detections", "DET", "--line", "1,2"), "--line is '1,2'"),
        (("--detections", "DET", "--line", "a=1,2,3,4", "--zone", "a=1,2,3,4,5,6"), "two lines or zones"),
        (("--detections", "nowhere.npz"), "does not exist"),
        (("--detections", "DET", "--json"), "--json is for --explain"),
        (
            ("--detections", "DET", "--track", "motion_weights=a.pt"),
            "has motion_weights, but not the motion they are for",
        ),
        (("--source", "nowhere.mp4"), "there is no such file"),
    ],
)
def test_mistakes(det_txt, tmp_path, capsys, words, message):
    assert track(tmp_path / "out", *(det_txt if word == "DET" else word for word in words)) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_run_without_tracks_says_why(det_txt, tmp_path, capsys):
    assert track(tmp_path / "out", "--detections", det_txt, "--track", "track_high_thresh=0.95") == 0
    said = capsys.readouterr().out
    assert "remark: walk: none of 22 detections became a track, their highest score is 0.9; --explain FRAME" in said
    assert track(tmp_path / "out", "--detections", det_txt, "--conf", "0.95") == 0
    assert "remark: walk: no detection reached the tracker" in capsys.readouterr().out
    assert track(tmp_path / "out", "--detections", det_txt) == 0
    assert "remark" not in capsys.readouterr().out


def test_empty_sequences_are_said(tmp_path, capsys):
    nothing = {"box": np.zeros((0, 4)), "score": [], "frame": []}
    write_detections(tmp_path / "dets" / "empty.npz", make_detections("empty", **nothing, length=0))
    write_detections(tmp_path / "dets" / "quiet.npz", make_detections("quiet", **nothing, length=5))
    assert track(tmp_path / "out", "--detections", tmp_path / "dets") == 0
    assert "empty has no frames: its results are empty" in capsys.readouterr().out
    assert (tmp_path / "out" / "exp" / "empty.txt").read_text() == ""
    assert json.loads((tmp_path / "out" / "exp" / "empty.json").read_text())["frames"] == []
    (tmp_path / "none.txt").write_text("")
    assert track(tmp_path / "alone", "--detections", tmp_path / "none.txt") == 0
    assert (tmp_path / "alone" / "exp" / "none.txt").read_text() == ""
    assert (tmp_path / "out" / "exp" / "quiet.txt").read_text() == ""
    assert len(json.loads((tmp_path / "out" / "exp" / "quiet.json").read_text())["frames"]) == 5


@pytest.mark.slow
def test_an_ending_that_is_damaged_keeps_the_results(weights, tmp_path, capsys):
    video = save_video(tmp_path / "long.mp4", frames=40)
    content = video.read_bytes()
    middle, end = len(content) // 2, content.index(b"moov") - 4
    video.write_bytes(content[:middle] + bytes(end - middle) + content[end:])
    assert track(tmp_path / "out", "--source", video, "--weights", weights, "--device", "cpu", "--max-det", "2") == 0
    assert "warning: " in capsys.readouterr().out
    found = json.loads((tmp_path / "out" / "exp" / "long.json").read_text())
    assert 4 < len(found["frames"]) < 36 and "it ends after" in found["remarks"][0]


@pytest.mark.slow
def test_a_camera_that_is_unplugged_keeps_the_results(weights, tmp_path, capsys):
    class Camera(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
            self.end_headers()
            jpeg = cv2.imencode(".jpg", picture(3))[1].tobytes()
            head = f"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
            for _ in range(12):
                self.wfile.write(head.encode() + jpeg + b"\r\n")
            self.wfile.write(head.encode() + jpeg[:20])

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Camera)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    source = f"http://127.0.0.1:{server.server_port}/camera"
    try:
        assert track(tmp_path / "out", "--source", source, "--weights", weights, "--device", "cpu", *EASY) == 0
    finally:
        server.shutdown()
        server.server_close()
    assert "the stream has ended after" in capsys.readouterr().out
    (path,) = (tmp_path / "out" / "exp").glob("*.json")
    found = json.loads(path.read_text())
    times = [frame["time"] for frame in found["frames"]]
    assert times and times == sorted(set(times)) and "has ended" in found["remarks"][0]
    assert path.with_suffix(".txt").exists() and video_facts(path.with_suffix(".mp4"))[0] == len(times)


def test_a_stated_frame_rate_counts_for_detections(det_txt, tmp_path):
    for rate, there in ((30, True), (0.5, False)):  # two frames missed are six seconds, at one in two seconds
        words = ("--detections", det_txt, "--tracker", "bytetrack", "--frame-rate", rate)
        assert track(tmp_path / str(rate), *words) == 0
        rows = rows_of(tmp_path / str(rate) / "exp" / "walk.txt")
        assert (2 in rows[rows[:, 0] > 5, 1]) == there


@pytest.mark.slow
def test_an_interrupt_keeps_the_results(weights, tmp_path, one_thread, capsys):
    video = save_video(tmp_path / "long.mp4", frames=4000)
    target = tmp_path / "out" / "exp" / "long.mp4"

    def interrupt():
        wait_until(lambda: any(part.stat().st_size > 1000 for part in target.parent.glob(".long.mp4.*.tmp.mp4")))
        assert not target.exists()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    words = ("--source", video, "--weights", weights, "--device", "cpu", "--save-detections", "--max-det", 5, *EASY)
    assert track(tmp_path / "out", *words, "cmc_method=none") == 130
    count, _ = video_facts(target)
    found = json.loads((target.with_suffix(".json")).read_text())
    assert 0 < count < 4000 and len(found["frames"]) >= count and target.with_suffix(".txt").exists()
    assert read_detections(target.parent / "detections").length >= count
    assert not list(target.parent.glob(".*"))
    last = found["frames"][-1]["frame"]
    assert found["complete"] is False and found["last_frame"] == last
    assert f"ended early: results so far are in {target.parent}: long to frame {last:,}\n" in capsys.readouterr().out


@pytest.mark.slow
def test_the_commands_of_the_page_run_as_printed(weights, tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "track.md").read_text(encoding="utf-8")
    commands = [shlex.split(line, comments=True) for line in page.split("```")[1].splitlines() if line]
    assert len(commands) == 7
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    shutil.copy(weights, "best.pt")
    for name in ("street", "left", "right"):
        save_video(tmp_path / f"{name}.mp4", frames=3)
    for program, *words in commands:
        assert program == "yolofast" and main(words) == 0, words
    assert "detections: " in capsys.readouterr().out
    assert len(list(Path("runs/track").iterdir())) == 5


def test_the_explanation_of_the_page_is_what_is_said(det_txt, tmp_path, capsys):
    page = (Path(__file__).parents[2] / "docs" / "track.md").read_text(encoding="utf-8")
    assert track(tmp_path / "out", "--detections", det_txt, "--tracker", "bytetrack", "--explain", "4") == 0
    assert page.split("```")[3].strip() in capsys.readouterr().out


def test_the_command_and_python_agree(det_txt, tmp_path):
    assert track(tmp_path / "out", "--detections", det_txt, "--tracker", "ocsort", "--track", "min_hits=1") == 0
    stored, tracker = read_detections(det_txt), build_tracker("ocsort", min_hits=1)
    starts, rows = stored.starts(), []
    for number in range(1, stored.length + 1):
        some = slice(starts[number - 1], starts[number])
        tracks = tracker.update(stored.box[some], stored.score[some], time=stored.times[number - 1])
        rows += [(number, id) for id in tracks.ids.tolist()]
    found = rows_of(tmp_path / "out" / "exp" / "walk.txt")
    assert [(int(row[0]), int(row[1])) for row in found] == rows


@pytest.fixture
def shaken(tmp_path):
    """Detections of a thing that stands still, seen by a camera that jumps to and fro; and the camera's motion."""
    shifts = [30 * (frame % 2) for frame in range(8)]
    rows = [f"{frame},-1,{100 + shift},50,12,30,0.9" for frame, shift in enumerate(shifts, 1)]
    (tmp_path / "walk.txt").write_text("\n".join(rows))
    warps = [f"{frame}\t1 0 {30 if frame % 2 == 0 else -30}, 0 1 0" for frame in range(2, 9)]
    (tmp_path / "warps.txt").write_text("\n".join(warps) + "\n")
    return tmp_path / "walk.txt", tmp_path / "warps.txt"


@pytest.mark.slow
def test_the_cameras_recorded_motion_keeps_identities(shaken, weights, tmp_path):
    detections, warps = shaken
    for tracker in ("botsort", "boosttrack"):
        found = []
        for name, more in (("with", ("--warps", warps)), ("without", ())):
            words = ("--tracker", tracker, "--name", f"{name}-{tracker}", *more)
            assert track(tmp_path / "out", "--detections", detections, *words) == 0
            found.append(rows_of(tmp_path / "out" / f"{name}-{tracker}" / "walk.txt")[:, 1].tolist())
        assert found[0] == [1] * 8 and found[1] != [1] * 8
    video = save_video(tmp_path / "street.mp4", frames=8)
    frames = Detector(weights, device="cpu").track(video, most=1, warps=warps)
    assert len(list(frames)) == 8
    words = ("--source", video, "--weights", weights, "--device", "cpu", "--max-det", "1", "--save-detections")
    assert track(tmp_path / "seen", *words, "--warps", warps) == 0
    stored = read_detections(tmp_path / "seen" / "exp" / "detections").warps
    assert stored[:, 0, 2].tolist() == [0, 30, -30, 30, -30, 30, -30, 30]


def test_warps_between_frames_that_are_used_count_together(shaken, tmp_path):
    """The camera shakes to and fro, so every second frame shows that it stands still."""
    detections, warps = shaken
    for name, more in (("with", ("--warps", warps)), ("still", ("--track", "cmc_method=none"))):
        assert track(tmp_path / name, "--detections", detections, "--vid-stride", 2, *more) == 0
    found, wanted = (rows_of(tmp_path / name / "exp" / "walk.txt") for name in ("with", "still"))
    assert set(found[:, 0]) == {1, 3, 5, 7}
    np.testing.assert_allclose(found, wanted, atol=1e-3)


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("2,1,0,x,0,1,0", (), "warps.txt:1: '2,1,0,x,0,1,0' is not numbers"),
        ("\n2,1,0,3,0,1", (), "warps.txt:2: '2,1,0,3,0,1' is not a warp"),
        ("2,1,0,nan,0,1,0", (), "is not a warp"),
        ("0,1,0,3,0,1,0", (), "frames from 1"),
        ("2,1,0,3,0,1,0\n2,1,0,3,0,1,0", (), "warps.txt:2: frame 2 has two warps"),
        (None, (), "does not exist"),
        ("", ("--tracker", "ocsort"), "ocsort does not look at the camera's motion"),
        ("", ("--track", "cmc_method=orb"), "warps are given, but cmc_method is 'orb'"),
        ("", ("--source", "a.mp4", "b.mp4"), "--warps are those of one video"),
    ],
)
def test_warps_that_are_wrong(shaken, tmp_path, capsys, text, words, said):
    detections, warps = shaken
    warps.write_text(text) if text is not None else warps.unlink()
    given = () if "--source" in words else ("--detections", detections)
    assert track(tmp_path / "out", *given, "--warps", warps, *words) == 2
    assert said in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_recorded_warps_have_to_be_there(shaken, weights, tmp_path, capsys):
    assert track(tmp_path / "out", "--detections", shaken[0], "--track", "cmc_method=file") == 2
    assert "cmc_method is file, but no warps are given" in capsys.readouterr().err
    with pytest.raises(UserError, match="no warps are given"):
        Detector(weights, device="cpu").track(tmp_path, cmc_method="given")
    with pytest.raises(UserError, match="those of one video"):
        Detector(weights, device="cpu").track(["a.mp4", "b.mp4"], warps=shaken[1])
