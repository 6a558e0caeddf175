"""Everything a run with pictures leaves in its folder, and that it trains what a run without them trains."""

import contextlib
import io
import json
import shlex
import shutil

import cv2
import pytest
import torch

from tests.train.small_run import NETWORK, flags, state_of
from yolofast import build_model
from yolofast.cli import main, parse
from yolofast.runs.folder import forget_earlier_run

pytestmark = pytest.mark.slow

PICTURES = {
    "labels.jpg", "train_batch0.jpg", "train_batch1.jpg", "train_batch2.jpg", "val_batch0_labels.jpg",
    "val_batch0_pred.jpg", "results.png", "PR_curve.png", "F1_curve.png", "P_curve.png", "R_curve.png",
    "confusion_matrix.png", "predictions.jpg",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("behind")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums are then always added in the same order
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("YOLOFAST_CACHE", str(folder / "cache"))
        assert main(["train", *flags(folder, epochs=1, name="without")]) == 0
    yield folder
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def output(folder):
    """Of the run with pictures."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert (
            main(["train", *flags(folder, plots=True, epochs=1, name="it's"), "--bbox_interval", "1", "--save-init"])
            == 0
        )
    return said.getvalue()


def test_pictures(folder, output):
    run = folder / "runs" / "it's"
    made = {path.name for path in run.iterdir()}
    assert made >= PICTURES and "warning" not in output
    assert all(cv2.imread(str(run / name)).std() > 0 for name in PICTURES)
    assert cv2.imread(str(run / "predictions" / "epoch_001.jpg")) is not None
    assert cv2.imread(str(run / "samples" / "sample_00.jpg")) is not None and (run / "report.html").is_file()
    without = {path.name for path in (folder / "runs" / "without").iterdir()}
    assert not any(name.endswith((".jpg", ".png")) for name in without)


def test_pictures_change_nothing(folder, output):
    one, other = (state_of(folder, name)["model"] for name in ("without", "it's"))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_the_weights_it_began_with(folder, output, capsys):
    path = folder / "runs" / "it's" / "weights" / "init.pt"
    begun = torch.load(path, weights_only=True)["model"]
    torch.manual_seed(0)
    expected = build_model(NETWORK, 8).state_dict()
    assert begun.keys() == expected.keys()
    assert all(torch.equal(begun[name], expected[name]) for name in begun if "anchor" not in name)
    ended = state_of(folder, "it's")["model"]
    assert not all(torch.equal(begun[name], ended[name]) for name in begun)
    assert main(["info", "--weights", str(path)]) == 0 and "64×64" in capsys.readouterr().out
    assert not (folder / "runs" / "without" / "weights" / "init.pt").exists()


def test_records(folder, output):
    run = folder / "runs" / "it's"
    summary = json.loads((run / "summary.json").read_text())
    assert summary["epochs"] == 1 and summary["best_epoch"] == 1 and "metrics/mAP50(B)" in summary["best"]
    assert 0 < summary["train_seconds"] < summary["wall_seconds"] and summary["images_per_second"] > 0
    assert json.loads((run / "env.json").read_text())["torch"] == torch.__version__


def test_what_to_type_next_can_be_typed(folder, output):
    weights = folder / "runs" / "it's" / "weights"
    lines = output.splitlines()
    assert any(line.startswith("best: epoch 1, mAP50") and str(weights / "best.pt") in line for line in lines)
    commands = [shlex.split(line) for line in lines[lines.index("next:") + 1 :]]
    assert [command[1] for command in commands] == ["val", "predict", "train"]
    val, predict, train = (parse(command[1:]) for command in commands)
    assert val.weights in ([str(weights / "best.pt")], str(weights / "best.pt"), (str(weights / "best.pt"),))
    assert str(folder / "shapes" / "images" / "val") in predict.source
    assert train.resume == str(weights.parent) and train.epochs == 2


def test_a_run_that_got_no_better_draws_its_best_all_the_same(folder, output, capsys):
    run = folder / "runs" / "it's"
    (run / "PR_curve.png").unlink()
    words = ["--resume", str(run / "weights" / "last.pt"), "--device", "cpu"]
    assert main(["train", *words]) == 0  # it has all its epochs: nothing is left but the end
    assert "the run has all its 1 epoch: only its end is made again; to continue:" in capsys.readouterr().out
    assert (run / "PR_curve.png").is_file() and json.loads((run / "summary.json").read_text())["epochs"] == 1


def test_nothing_of_an_earlier_run_mixes_with_a_new_one(folder, output):
    """Whatever a run writes is known to `--exist-ok`, which keeps what is the user's."""
    run = folder / "earlier"
    shutil.copytree(folder / "runs" / "it's", run)
    for name in ("notes.txt", "weights/mine.pt", "profile.json", "weights/epoch_004.pt", "events.out.tfevents.1"):
        (run / name).write_text("")
    forget_earlier_run(run)
    left = {str(path.relative_to(run)) for path in run.rglob("*")}
    assert left == {"args.yaml", "hyp.yaml", "images.npz", "env.json", "weights", "notes.txt", "weights/mine.pt"}
