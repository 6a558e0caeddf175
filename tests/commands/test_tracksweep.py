"""`yolofast tracksweep` as typed: settings from stored detections, checkpoints from images, and what is refused."""

import csv
import glob
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import cv2
import psutil
import pytest

from tests.detect.seeing import picture, save_seeing
from tests.patience import PATIENCE, wait_until
from tests.track.scenes import still_images
from tests.track.sweep.made_up import write_folder
from yolofast import Detector, score_tracks
from yolofast.cli import main
from yolofast.commands import tracksweep
from yolofast.runs.reader import RunFolder
from yolofast.terminal.console import console
from yolofast.track.formats.read_detections import read_detections

SHAPES = ("circle", "square", "triangle", "star", "ring", "cross", "crescent", "arrow")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("sweep"), frames=30)


@pytest.fixture
def flags(data, tmp_path):
    return [
        "tracksweep", "--detections", str(data / "detections"), "--truth", str(data / "truth"),
        "--output", str(tmp_path / "out"), "--workers", "1",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_grid_over_trackers_and_detector(flags, tmp_path, capsys):
    page = tmp_path / "sweep.html"
    search = ["--set", "tracker=bytetrack,ocsort", "--set", "match_thresh=0.6,0.9", "nms=0.5,0.7", "--set", "conf=0.3"]
    assert main([*flags, *search, "--html", str(page)]) == 0
    output = capsys.readouterr().out
    assert "8 settings on 3 sequences of 90 frames" in output and "the defaults among them" in output
    assert "best by HOTA: " in output and "bytetrack, defaults" in output
    assert "match_thresh is the greatest cost" in output and "Against ocsort" in output
    with (tmp_path / "out" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8 and {row["tracker"] for row in rows} == {"bytetrack", "ocsort"}
    assert sorted(row["tracker"] for row in rows if row["default"] == "1") == ["bytetrack", "ocsort"]
    hota = [float(row["HOTA"]) for row in rows]
    assert hota == sorted(hota, reverse=True)
    found = json.loads((tmp_path / "out" / "sweep.json").read_text())
    assert (
        found["best"]["HOTA"] == pytest.approx(hota[0]) and found["best"]["settings"]["tracker"] == rows[0]["tracker"]
    )
    assert set(found["best"]["sequences"]) == {"SEQ-0", "SEQ-1", "SEQ-2"} and len(found["defaults"]) == 2
    assert {effect["setting"] for effect in found["effects"]} == {"tracker", "match_thresh", "nms"}
    assert any(row["front"] == "1" for row in rows) and len(found["front"]) >= 1
    text = page.read_text()
    assert (
        "Pareto front" in text and "least IoU at score 0.9" in text and text.endswith("<!-- yolofast tracksweep -->\n")
    )
    assert '"short":"0.6 / 0.7"' in text and '"short":"defaults"' in text, "only what differs stands beside points"
    assert main([*flags, *search]) == 0  # everything is there already
    assert "settings in" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_random_search_by_switches_from_a_file(flags, tmp_path, capsys):
    (tmp_path / "search.yaml").write_text("conf: 0.05:0.6\ntrack_buffer: [10, 30]\n")
    assert main([*flags, "--settings", str(tmp_path / "search.yaml"), "--random", "5", "--by", "IDSW"]) == 0
    assert "6 settings on 3" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "sweep.json").read_text())["by"] == "IDSW"


@pytest.mark.slow
def test_sequences_and_classes_can_be_chosen(data, flags, tmp_path, capsys):
    chosen = ["--sequences", "SEQ-1", "--classes", "walker", "--set", "match_thresh=0.8"]
    assert main([*flags, *chosen]) == 0
    output = capsys.readouterr().out
    assert "1 sequence of 30 frames" in output and "One sequence says nothing about others" in output
    assert "no truth" not in output, "the others have some, but were not chosen"
    flags[4] = str(tmp_path / "truth")
    for name in ("SEQ-0", "SEQ-1"):
        shutil.copytree(data / "truth" / name, tmp_path / "truth" / name)
    assert main([*flags, *chosen[:2], "--output", str(tmp_path / "other"), *chosen[4:]]) == 0
    assert "not searched, because there is no truth of them: SEQ-2" in capsys.readouterr().out


@pytest.mark.slow
def test_the_defaults_are_kept_where_nothing_is_better(flags, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main([*flags, "--tracker", "bytetrack", "--set", "match_thresh=0.01,0.02", "--html", str(page)]) == 0
    output = capsys.readouterr().out
    assert "best by HOTA: bytetrack, its defaults" in output and "--tracker bytetrack\n" in output
    said = "Nothing that was tried has a better HOTA than bytetrack as it comes: keep its defaults."
    assert said in output and said in page.read_text() and "Against bytetrack" not in output
    found = json.loads((tmp_path / "out" / "sweep.json").read_text())
    assert found["best"]["default"] and found["best"]["settings"] == {"tracker": "bytetrack"}
    assert [one["default"] for one in found["trials"]] == [True, False, False]
    assert found["defaults"][0]["best_is_better_by"] == 0


def test_the_best_so_far_counts_what_is_recorded(monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr(tracksweep, "figures_of", lambda rows: {"HOTA": rows})
    out = console()
    progress = tracksweep.SearchLine(out, "HOTA")
    with out.capture() as said:
        progress.know(0.7)
        progress(2, 3, {}, 0.5)
    assert "2 of 3 settings" in said.get() and "best HOTA 70.000" in said.get() and progress.done == 2


@pytest.fixture
def started(data, tmp_path):
    """A long search, with its workers."""
    words = ["--detections", data / "detections", "--truth", data / "truth", "--output", tmp_path / "out"]
    grid = ["--workers", "2", "--set", "conf=0.1:0.6:0.01", "match_thresh=0.5:0.9:0.01"]
    command = [sys.executable, "-m", "yolofast", "tracksweep", *map(str, words), *grid]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    (tmp_path / "temporary").mkdir()
    around = {"cwd": Path(__file__).parents[2], "env": {**os.environ, "TMPDIR": str(tmp_path / "temporary")}}
    process = subprocess.Popen(command, **pipes, start_new_session=True, **around)
    assert "results grow in" in process.stdout.readline()
    own = psutil.Process(process.pid)
    wait_until(lambda: len(own.children()) >= 3)  # with multiprocessing's own
    yield process, own.children()
    process.kill()
    process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_interrupt_is_one_line(started, tmp_path, number):
    """While workers still import: they say nothing."""
    process, _ = started
    os.killpg(process.pid, number)
    said = process.communicate(timeout=PATIENCE)[1]
    kept = re.fullmatch(r"yolofast: interrupted: (\d+) settings? recorded in (.*); the same command continues\n", said)
    assert kept and kept[2] == str(tmp_path / "out") and process.returncode == 128 + number
    assert len((tmp_path / "out" / "trials.jsonl").read_text().splitlines()) == 1 + int(kept[1])


@pytest.mark.slow
def test_workers_end_with_a_search_that_is_killed(started, tmp_path):
    process, workers = started
    process.kill()
    _, left = psutil.wait_procs(workers, timeout=PATIENCE)
    assert not left and not list((tmp_path / "temporary").iterdir())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--set", "match_tresh=1"], "did you mean 'match_thresh'?"),
        (["--sequences", "SEQ-9"], "has no sequence SEQ-9"),
        (["--classes", "walkr"], "did you mean 'walker'?"),
        (["--html", "page.txt"], "--html is page.txt"),
        (["--data", "x.yaml"], "--truth and --data are both given"),
        (["--weights", "x.pt"], "--weights and --detections are both given"),
        (["--by", "HOT"], "'HOTA'"),
        (
            ["--tracker", "ocsort", "--set", "tracker=bytetrack"],
            "--tracker ocsort and --set tracker=bytetrack are both",
        ),
    ],
)
def test_what_is_refused(flags, more, message, capsys):
    with_code = None
    try:
        with_code = main([*flags, *more])
    except SystemExit as end:  # argparse
        with_code = end.code
    assert with_code == 2 and message in capsys.readouterr().err


def test_a_sequence_without_detections_is_named(data, flags, tmp_path, capsys):
    (tmp_path / "some").mkdir()
    for name in ("SEQ-0", "SEQ-1"):
        (tmp_path / "some" / f"{name}.npz").write_bytes((data / "detections" / f"{name}.npz").read_bytes())
    flags[2] = str(tmp_path / "some")
    assert main(flags) == 2
    assert "has no detections of sequence SEQ-2" in capsys.readouterr().err


@pytest.fixture
def run(data, tmp_path):
    """A run of three epochs whose checkpoints see different things, and sequences with images."""
    folder = tmp_path / "runs" / "train" / "exp"
    (folder / "weights").mkdir(parents=True)
    rows = ["epoch,time,train/box_loss,metrics/precision(B),metrics/recall(B),metrics/mAP50(B),metrics/mAP50-95(B)"]
    for epoch, score in enumerate((0.1, 0.3, 0.2)):
        save_seeing(folder / "weights" / f"epoch_{epoch + 1:03}.pt", img_size=64, seed=epoch)
        rows.append(f"{epoch},{epoch + 1},0.5,{score},{score},{score},{score / 2}")
    (folder / "results.csv").write_text("\n".join(rows) + "\n")
    for place in range(2):
        own = tmp_path / "truth" / f"SEQ-{place}"
        (own / "img1").mkdir(parents=True)
        for number in range(1, 7):
            cv2.imwrite(str(own / "img1" / f"{number:06}.jpg"), picture(number + 10 * place))
        (own / "gt").mkdir()
        lines = [f"{number},{i},{10 + 20 * i},10,16,24,1,1,1" for number in range(1, 7) for i in (1, 2)]
        (own / "gt" / "gt.txt").write_text("\n".join(lines) + "\n")
        (own / "seqinfo.ini").write_text(f"[Sequence]\nname=SEQ-{place}\nframeRate=10\nseqLength=6\n")
    (tmp_path / "truth" / "sequences.yaml").write_text("path: .\nnames: {1: thing}\n")
    return folder


@pytest.mark.slow
def test_which_epoch_to_ship(run, tmp_path, capsys):
    weights = sorted(map(str, (run / "weights").iterdir()))
    flags = ["tracksweep", "--output", str(tmp_path / "out"), "--workers", "1", "--device", "cpu"]
    flags += ["--tracker", "bytetrack"]
    data = ["--data", str(tmp_path / "truth" / "sequences.yaml")]
    assert main([*flags, *data, "--weights", *weights[:2], "--html", str(tmp_path / "page.html")]) == 0
    output = capsys.readouterr().out
    assert "epoch_001.pt: detecting in SEQ-0" in output and "2 epochs tracked on 2 sequences" in output
    assert len(list((tmp_path / "out" / "detections").glob("*/SEQ-*.npz"))) == 4
    assert "Which checkpoint tracks best" in (tmp_path / "page.html").read_text()
    first = json.loads((run / "tracking.json").read_text())
    assert [row["epoch"] for row in first["epochs"]] == [1, 2] and not first["retuned"]
    best = max(first["epochs"], key=lambda row: row["HOTA"])
    assert best["behind"] == {"epoch": best["epoch"], "interval": [0, 0]}
    assert all(row["behind"]["epoch"] == best["epoch"] for row in first["epochs"])
    # A third one, from MOT folders: what is known stays, and is not computed again.
    assert main([*flags, "--truth", str(tmp_path / "truth"), "--weights", *weights]) == 0
    output = capsys.readouterr().out
    assert output.count("detecting in") == 2 and "epoch_003.pt: detecting" in output
    rows = json.loads((run / "tracking.json").read_text())["epochs"]
    assert [row["epoch"] for row in rows] == [1, 2, 3] and rows[:2] == first["epochs"]
    tracked = RunFolder(run).tracking
    assert tracked.sequences == 2 and tracked.best("HOTA").epoch == max(rows, key=lambda row: row["HOTA"])["epoch"]
    # Each with its own best settings: other scores, so those of before are kept apart.
    assert main([*flags, *data, "--weights", weights[0], "--set", "track_thresh=0.1,0.3", "new_track_thresh=0.1"]) == 0
    found = json.loads((run / "tracking.json").read_text())
    assert found["retuned"] and [row["epoch"] for row in found["epochs"]] == [1]
    assert {"tracker": "bytetrack"} in found["searched"] and len(found["searched"]) == 3
    (earlier,) = found["earlier"]
    assert earlier["epochs"] == rows and not earlier["retuned"] and RunFolder(run).tracking.retuned
    capsys.readouterr()
    assert main([*flags, *data, "--weights", weights[0]]) == 0  # as before: all three are there again
    found = json.loads((run / "tracking.json").read_text())
    assert found["epochs"] == rows and [one["retuned"] for one in found["earlier"]] == [True]


@pytest.mark.slow
def test_compare_and_diagnose_show_it_beside_map(run, tmp_path, capsys):
    scores = {1: (0.5, 0.62, 0.4), 2: (0.45, 0.55, 0.41), 3: (0.44, 0.5, 0.3)}
    rows = [
        {"epoch": epoch, "weights": f"epoch_{epoch:03}.pt", "HOTA": hota, "IDF1": idf1, "MOTA": mota, "IDSW": epoch}
        for epoch, (hota, idf1, mota) in scores.items()
    ]
    (run / "tracking.json").write_text(json.dumps({"by": "HOTA", "sequences": ["a", "b"], "epochs": rows}))
    said = "IDF1 chooses epoch 1, mAP50-95 epoch 2: that one has 7.00 points less IDF1, the other 10.00 points less mAP"
    assert main(["diagnose", str(run)]) == 0
    output = capsys.readouterr().out
    assert f"tracking: {said}" in output and "MOTA chooses" not in output
    assert main(["diagnose", str(run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["tracking"]
    assert found["best"] == {"HOTA": 1, "IDF1": 1, "MOTA": 2}
    assert {one["score"] for one in found["disagreements"]} == {"HOTA", "IDF1"}
    assert found["rank_correlation_with_map"]["IDF1"] == pytest.approx(-0.5)

    other = tmp_path / "other"
    other.mkdir()
    (other / "results.csv").write_text((run / "results.csv").read_text())
    page, values = tmp_path / "compare.html", tmp_path / "compare.json"
    assert main(["compare", str(run), str(other), "--output", str(page), "--json", str(values)]) == 0
    assert f"tracking, exp: {said}" in capsys.readouterr().out
    assert "IDF1 of mAP&#x27;s epoch" in page.read_text() or "IDF1 of mAP's epoch" in page.read_text()
    runs = json.loads(values.read_text())["runs"]
    assert runs[0]["tracking"]["best"]["IDF1"] == 1 and runs[1]["tracking"] is None
    (other / "tracking.json").write_text(json.dumps({"by": "HOTA", "sequences": ["a", "c"], "epochs": rows}))
    assert main(["compare", str(run), str(other), "--output", str(page)]) == 0
    warning = "runs were tracked with other sequences: a score of one is no measure for another"
    assert f"tracking: the {warning}\n" in capsys.readouterr().out and f"The {warning}." in page.read_text()
    (run / "tracking.json").write_text("{torn")
    assert main(["diagnose", str(run)]) == 0
    assert "tracking.json cannot be read" in capsys.readouterr().out


@pytest.mark.slow
def test_the_commands_of_the_page_run_as_printed(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "tracksweep.md").read_text(encoding="utf-8")
    commands = [shlex.split(line) for line in page.split("```")[1].splitlines() if line]
    assert len(commands) == 6
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    weights = tmp_path / "runs" / "train" / "exp" / "weights"
    weights.mkdir(parents=True)
    for epoch in (1, 2):
        save_seeing(weights / f"epoch_{epoch:03}.pt", names=SHAPES, img_size=64, seed=epoch)
    shutil.copy(weights / "epoch_002.pt", "best.pt")
    smaller = {"dataset": "--frames 4 --sequences 2", "tracksweep": "--workers 1"}
    for _, *words in commands:
        small = smaller.get(words[0], "").split()
        globbed = [name for word in words for name in (sorted(glob.glob(word)) if "epoch_*" in word else [word])]
        assert main([*globbed, *small]) == 0, words
    output = capsys.readouterr().out
    assert "36 settings on 2 sequences" in output and "51 settings on 2 sequences" in output
    assert "cmc_method" not in output  # stored detections hold the camera's motion, those of checkpoints too
    assert "epoch_001.pt: detecting in SHAPES-01" in output and Path("tracksweep.html").is_file()


@pytest.fixture
def seen_video(tmp_path):
    """Weights that see several classes at one place, a sequence of images, and its truth."""
    weights = save_seeing(tmp_path / "some.pt", img_size=64)
    images = still_images(tmp_path / "truth" / "SEQ" / "img1", 8)
    detector = Detector(weights, device="cpu")
    rows = []
    for number, one in enumerate(detector.track(images, "bytetrack", track_thresh=0.2), 1):
        boxes = one.tracks.boxes[::2]
        rows += [f"{number},{i},{x1},{y1},{x2 - x1},{y2 - y1},1,1,1" for i, (x1, y1, x2, y2) in enumerate(boxes, 1)]
    (tmp_path / "truth" / "SEQ" / "gt").mkdir()
    (tmp_path / "truth" / "SEQ" / "gt" / "gt.txt").write_text("\n".join(rows) + "\n")
    (tmp_path / "truth" / "SEQ" / "seqinfo.ini").write_text("[Sequence]\nname=SEQ\nframeRate=10\nseqLength=8\n")
    return weights, images, tmp_path / "truth"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tracker", "more"), [("botsort", []), ("bytetrack", ["classes=each"]), ("bytetrack", ["conf=0.3", "nms=0.5"])]
)
def test_the_best_scores_the_same_where_it_is_used(seen_video, tmp_path, capsys, tracker, more):
    """From stored detections, and with the network as the search says it."""
    weights, images, truth = seen_video
    own = ["--weights", str(weights), "--source", str(images), "--device", "cpu"]
    assert main(["predict", *own, "--save-detections", "--nosave", "--project", str(tmp_path / "seen")]) == 0
    stored = str(tmp_path / "seen" / "exp" / "detections")
    found = read_detections(stored)
    assert not found.across[:, 0].all() and found.made.marked == (0.7, 0.6, 0.5, 0.4, 0.3)
    assert (found.made.iou, found.made.conf, found.made.size) == (0.7, 0.01, (64, 64))
    high = "track_thresh" if tracker == "bytetrack" else "track_high_thresh"
    search = ["--truth", str(truth), "--tracker", tracker, "--set", f"{high}=0.2,0.5", "new_track_thresh=0.2", *more]
    words = ["tracksweep", "--detections", stored, *search, "--workers", "1", "--output", str(tmp_path / "sweep")]
    assert main(words) == 0
    (line,) = [one for one in capsys.readouterr().out.splitlines() if one.startswith("to use it: ")]
    best = json.loads((tmp_path / "sweep" / "sweep.json").read_text())["best"]["HOTA"]
    _, used = line.split(" --weights FILE ")
    for name, given in (("network", own), ("stored", ["--detections", stored])):
        assert main(["track", *given, *shlex.split(used), "--project", str(tmp_path / name), "--nosave"]) == 0
        scores = score_tracks(truth, tmp_path / name / "exp")
        assert abs(scores.combined.HOTA - best) < 1e-6 and best > 0.1
    texts = [(tmp_path / name / "exp" / "SEQ.txt").read_text() for name in ("network", "stored")]
    assert texts[0] == texts[1]
