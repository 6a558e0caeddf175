"""Which folders are runs, in which state, and which of their files may be had."""

import os
import threading
import time

import pytest

from tests.watch.made_runs import append, bytes_read, counts_bytes, make_run, row
from yolofast.watch.find_runs import DEEPEST, FoundRun, find_runs
from yolofast.watch.overview import Overview
from yolofast.watch.runs import Runs, content_type, pictures, read_run_file
from yolofast.watch.watched_folder import WatchedFolder


def names(root):
    return sorted(run.name for run in find_runs(root).runs)


def test_runs_are_found_at_any_depth_but_not_through_links(tmp_path):
    root, outside = tmp_path / "runs", make_run(tmp_path / "outside")
    make_run(root / "train" / "exp")
    make_run(root / "sweep" / "lr" / "0.01")
    make_run(root / "train" / "starting", done=0, finished=False)
    make_run(root / ".hidden" / "exp")
    (root / "val" / "exp").mkdir(parents=True)
    (root / "val" / "exp" / "coco.json").write_text("{}")
    (root / "linked").symlink_to(outside, target_is_directory=True)
    (root / "loop").symlink_to(root, target_is_directory=True)
    make_run(root.joinpath(*"abcdefgh"[: DEEPEST + 1]))
    assert names(root) == ["sweep/lr/0.01", "train/exp", "train/starting"]


def test_only_within_a_run_are_weights_labels_and_samples_its_own(tmp_path):
    make_run(tmp_path / "run")
    for name in ("weights", "labels", "samples"):
        make_run(tmp_path / name)
        make_run(tmp_path / "sweep" / name / "exp")
        make_run(tmp_path / "run" / name)
    of_a_sweep = ["sweep/labels/exp", "sweep/samples/exp", "sweep/weights/exp"]
    assert names(tmp_path) == ["labels", "run", "samples", *of_a_sweep, "weights"]


def test_a_run_can_be_named_itself_and_a_folder_may_be_missing(tmp_path):
    run = make_run(tmp_path / "exp")
    assert [(one.id, one.name) for one in find_runs(run).runs] == [(".", "exp")]
    assert names(tmp_path / "nothing") == []


def test_names_of_any_bytes_have_plain_ids(tmp_path):
    odd = [b"\xff\xfe", b"a\nb", b"<script>", b"q'\"&?#%2e", "größe 日本".encode(), b"x" * 200]
    for name in odd:
        make_run(tmp_path / os.fsdecode(name), done=1)
    found = find_runs(tmp_path).runs
    assert len({run.id for run in found}) == len(odd) and all(run.id.isascii() for run in found)
    runs = Runs(tmp_path)
    for line in runs.list()["runs"]:
        line["name"].encode()
        assert len(runs.detail(line["id"], "", 0, 0)["rows"]) == 1


@pytest.mark.parametrize(
    "run_id", ["..", "../secret", "%2e%2e/secret", "/etc", "exp/../../secret", "", "exp\0", "nothing"]
)
def test_only_what_was_found_can_be_asked_for(tmp_path, run_id):
    make_run(tmp_path / "runs" / "exp")
    make_run(tmp_path / "secret")
    runs = Runs(tmp_path / "runs")
    assert runs.detail(run_id, "", 0, 0) is None and runs.file(run_id, "report.html") is None


def state(root):
    (line,) = Runs(root).list()["runs"]
    return line["state"]


def test_states(tmp_path):
    assert state(make_run(tmp_path / "finished")) == "finished"
    assert state(make_run(tmp_path / "old", age=1e6)) == "finished"
    assert state(make_run(tmp_path / "running", done=3, finished=False)) == "running"
    assert state(make_run(tmp_path / "between", done=3, finished=False, age=100)) == "running"
    assert state(make_run(tmp_path / "killed", done=3, finished=False, age=200)) == "stopped"
    assert state(make_run(tmp_path / "starting", done=0, finished=False, age=600)) == "running"
    assert state(make_run(tmp_path / "never", done=0, finished=False, age=6000)) == "stopped"
    assert state(make_run(tmp_path / "without summary", finished=False, age=1e6)) == "finished", (
        "all its epochs are there"
    )


def test_an_interrupted_run_has_stopped_until_it_is_resumed(tmp_path):
    overview = Overview(FoundRun("run", "run", WatchedFolder(make_run(tmp_path / "run", done=3, finished=False))))
    assert overview.line()["state"] == "running"
    (tmp_path / "run" / "interrupted.json").write_text('{"epochs": 3}')
    assert overview.line()["state"] == "stopped"
    (tmp_path / "run" / "interrupted.json").unlink()
    assert overview.line()["state"] == "running"


def test_a_complete_run_is_finished_whatever_came_later(tmp_path):
    run = make_run(tmp_path / "run", age=5000)
    (run / "interrupted.json").write_text('{"epochs": 10}')
    assert state(run) == "finished"
    os.utime(run / "args.yaml")  # resumed, to have its end made again
    assert state(run) == "finished"


def test_one_that_was_resumed_and_interrupted_at_once_has_stopped(tmp_path):
    run = make_run(tmp_path / "run")
    (run / "args.yaml").write_text("epochs: 20\n")
    (run / "interrupted.json").write_text('{"epochs": 10}')
    assert state(run) == "stopped"


def test_a_long_epoch_is_waited_for(tmp_path):
    run = make_run(tmp_path / "slow", done=0, finished=False)
    (run / "results.csv").write_text("epoch,time\n0,1000\n1,2000\n")
    then = time.time() - 2500
    for path in run.iterdir():
        os.utime(path, (then, then))
    assert state(run) == "running"


def test_a_resumed_run_is_not_finished_any_more(tmp_path):
    run = make_run(tmp_path / "run", age=5000)
    runs = Runs(tmp_path)
    (run / "args.yaml").write_text("epochs: 20\n")
    assert runs.list()["runs"][0]["state"] == "running"
    (run / "summary.json").write_text('{"epochs": 10}')
    append(run, row(10) + "\n")
    assert state(run) == "running", "more rows than the summary is of"


def test_the_list_says_how_far_how_good_how_fast(tmp_path):
    run = make_run(tmp_path / "run", epochs=30, done=4, finished=False)
    (line,) = Runs(tmp_path).list()["runs"]
    best = float(row(3).split(",")[8])
    assert (line["epoch"], line["epochs"], line["map"], line["speed"]) == (4, 30, best, 900)
    assert not line["report"] and line["started"] <= time.time() + 1
    append(run, ",".join([*row(4).split(",")[:7], "0.1", f"{best + 0.005}", *row(4).split(",")[9:]]) + "\n")
    assert Runs(tmp_path).list()["runs"][0]["map"] == best, "best.pt is of the highest 0.1 · mAP50 + 0.9 · mAP50-95"
    (run / "report.html").write_text("<p>")
    (line,) = Runs(tmp_path).list()["runs"]
    assert line["report"]


def test_speed_is_that_of_the_whole_run(tmp_path):
    """Images over time, as the report says it: 900 a second for 20 s, 450 for 40 s, and an epoch nobody measured."""
    run = make_run(tmp_path / "run", done=2, finished=False)
    append(run, row(2).replace(",30,", ",60,").replace(",900,", ",450,") + "\n" + row(6).replace(",900,", ",,") + "\n")
    (line,) = Runs(tmp_path).list()["runs"]
    assert line["speed"] == pytest.approx((900 * 20 + 450 * 40) / 60)


@counts_bytes
def test_an_unchanged_list_reads_nothing(tmp_path):
    for i in range(50):
        make_run(tmp_path / f"run{i}")
    runs = Runs(tmp_path)
    assert len(runs.list()["runs"]) == 50
    runs._list_until = 0
    before = bytes_read()
    assert len(runs.list()["runs"]) == 50
    assert bytes_read() - before < 2**10


def test_folders_come_and_go(tmp_path):
    run = make_run(tmp_path / "a")
    runs = Runs(tmp_path)
    assert len(runs.list()["runs"]) == 1
    for path in run.iterdir():
        path.unlink()
    assert runs.detail("a", "", 0, 0)["rows"] == []
    run.rmdir()
    runs._list_until = 0
    assert runs.list()["runs"] == [] and runs.detail("a", "", 0, 0) is None


@pytest.mark.parametrize("name", ["report.html", "results.png", "val_batch0_pred.jpg", "A B-1.JPEG"])
def test_files_that_may_be_had(tmp_path, name):
    (tmp_path / name).write_bytes(b"content")
    assert read_run_file(WatchedFolder(tmp_path), name).content == b"content"


REFUSED = [
    "args.yaml", "other.html", "REPORT.HTML", "results.csv", "weights/best.pt", "../results.png", "..%2fresults.png",
    ".png", ".hidden.png", "x.svg", "a/b.png", "a\\b.png", "a\0.png", "x.png\n", "x" * 120 + ".png", "", ".", "..",
    "ü.png",
]  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_may_not(name):
    assert content_type(name) is None


def test_links_are_not_followed(tmp_path):
    (tmp_path / "secret.png").write_bytes(b"private")
    run = tmp_path / "runs" / "exp"
    make_run(run)
    (run / "results.png").symlink_to(tmp_path / "secret.png")
    os.mkfifo(run / "pipe.png")
    runs = Runs(tmp_path / "runs")
    assert (
        runs.file("exp", "results.png") is None
        and runs.file("exp", "pipe.png") is None
        and pictures(WatchedFolder(run)) == []
    )
    run.rename(tmp_path / "moved")
    (tmp_path / "moved" / "real.png").write_bytes(b"private")
    run.symlink_to(tmp_path / "moved", target_is_directory=True)
    assert runs.file("exp", "real.png") is None, "the folder has become a link since it was found"
    assert runs.detail("exp", "", 0, 0) is None


def test_a_folder_that_becomes_a_link_again_and_again_gives_nothing_away(tmp_path):
    root, other = tmp_path / "runs", make_run(tmp_path / "other")
    run = make_run(root / "sweep" / "exp")
    (run / "x.png").write_bytes(b"own")
    (other / "x.png").write_bytes(b"private")
    (other / "results.csv").write_text("epoch,time,private\n0,1,7\n")
    link, aside, ended = tmp_path / "link", tmp_path / "aside", threading.Event()
    link.symlink_to(other, target_is_directory=True)

    def swap():
        while not ended.is_set():
            run.rename(aside)
            link.rename(run)
            run.rename(link)
            aside.rename(run)

    runs = Runs(root)
    runs.list()
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        found = [runs.file("sweep/exp", "x.png") for _ in range(2000)]
        details = [runs.detail("sweep/exp", "", 0, 0) for _ in range(100)]
    finally:
        ended.set()
        thread.join()
    contents = {None if one is None else one.content for one in found}
    contents.add(runs.file("sweep/exp", "x.png").content)  # at rest it is there; meanwhile it may never have been
    assert contents <= {None, b"own"}
    assert not any(one is not None and "private" in one["columns"] for one in details)
