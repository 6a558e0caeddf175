"""Gradients are summed as asked, precision and folders are chosen, records are whole."""

import csv

import pytest
import torch

from tests.train.test_checkpoints import state
from tests.train.test_guard import make_step
from yolofast.errors import UserError
from yolofast.precision import LossScale, Precision
from yolofast.runs.folder import new_run_folder
from yolofast.runs.layout import columns_with
from yolofast.train.checkpoints import Checkpoints, read_state
from yolofast.train.record import Recorder
from yolofast.train.step import StepKind


def test_two_batches_summed_are_one_update_of_their_sum():
    one, two = make_step(), make_step()
    generator = torch.Generator().manual_seed(1)
    first, second = torch.rand(4, 2, generator=generator), torch.rand(4, 2, generator=generator)
    one.run(first, torch.tensor(1.0), StepKind(sums=True, updates=False))
    before = [p.clone() for p in one.model.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(before, make_step().model.parameters(), strict=True))
    one.run(second, torch.tensor(1.0), StepKind(sums=True, updates=True))
    # Twice the mean over both batches is the sum of their means.
    two.run(torch.cat((first, second)), torch.tensor(2.0), StepKind(sums=False, updates=True))
    for a, b in zip(one.model.parameters(), two.model.parameters(), strict=True):
        torch.testing.assert_close(a, b)
    assert not any(total.any() for total in one.state_dict()["gradients"])


def test_two_batches_averaged_are_one_update_of_their_mean():
    """Of a larger batch, that is."""
    one, two = make_step(), make_step()
    first, second = torch.rand(2, 4, 2, generator=torch.Generator().manual_seed(1))
    one.run(first, torch.tensor(1.0), StepKind(sums=True, updates=False, averaged=2))
    one.run(second, torch.tensor(1.0), StepKind(sums=True, updates=True, averaged=2))
    two.run(torch.cat((first, second)), torch.tensor(1.0), StepKind(sums=False, updates=True))
    for a, b in zip(one.model.parameters(), two.model.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_pending_gradients_are_part_of_the_state():
    whole, resumed = make_step(), make_step()
    batches = [torch.rand(4, 2, generator=torch.Generator().manual_seed(i)) for i in range(2)]
    whole.run(batches[0], torch.tensor(1.0), StepKind(sums=True, updates=False))
    resumed.load_state_dict(whole.state_dict())
    for step in (whole, resumed):
        step.run(batches[1], torch.tensor(1.0), StepKind(sums=True, updates=True))
    for a, b in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_precision():
    assert Precision.choose("auto", "cpu").dtype is torch.float32
    assert Precision.choose("bf16", "cpu").dtype is torch.bfloat16
    with pytest.raises(UserError, match="float16 is too coarse"):
        Precision.choose("fp16", "cpu")


def test_loss_scale_falls_on_overflow_and_the_step_is_left_out():
    scale = LossScale(Precision(torch.device("cpu"), torch.float16))
    grads = [torch.tensor([65536.0]), torch.tensor([float("inf")])]
    scale.unscale(grads)
    assert scale.scale == 2.0**15 and not any(g.any() for g in grads)
    grads = [torch.tensor([2.0**15])]
    scale.unscale(grads)
    assert grads[0] == 1.0


def test_run_folders_are_numbered(tmp_path):
    names = [new_run_folder(tmp_path, "exp").name for _ in range(3)]
    assert names == ["exp", "exp2", "exp3"]
    assert new_run_folder(tmp_path, "exp", exist_ok=True).name == "exp"
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be made"):
        new_run_folder(tmp_path / "file", "exp")


def test_a_run_folder_appears_with_its_first_files(tmp_path):
    (tmp_path / "exp").mkdir()
    folder = new_run_folder(tmp_path, "exp", files={"args.yaml": b"epochs: 3\n"})
    assert folder.name == "exp2" and (folder / "args.yaml").read_text() == "epochs: 3\n"
    again = new_run_folder(tmp_path, "exp2", exist_ok=True, files={"args.yaml": b"epochs: 4\n"})
    assert again == folder and (folder / "args.yaml").read_text() == "epochs: 4\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exp", "exp2"], "nothing unfinished is left"


def test_the_last_two_states_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path / "weights")
    for epoch in range(3):
        checkpoints.save(state(epoch=epoch))
    checkpoints.finish()
    assert sorted(p.name for p in (tmp_path / "weights").iterdir()) == ["last.previous.pt", "last.pt"]
    last = tmp_path / "weights" / "last.pt"
    assert read_state(last)[0]["epoch"] == 2
    last.unlink()  # killed between the two renames
    found, warning = read_state(last)
    assert found["epoch"] == 1 and "last.previous.pt" in warning
    last.with_name("last.previous.pt").write_bytes(b"junk")
    with pytest.raises(UserError, match=r"cannot be resumed: last\.pt is not there; last\.previous\.pt is damaged"):
        read_state(last)


@pytest.mark.parametrize("left", [0, 10, 30_000])
def test_a_state_that_was_cut_off_is_reported_in_plain_words(tmp_path, left):
    checkpoints = Checkpoints(tmp_path / "weights")
    for epoch in range(2):
        checkpoints.save(state(step={"some": torch.zeros(10_000)}, epoch=epoch))
    checkpoints.finish()
    last = tmp_path / "weights" / "last.pt"
    last.write_bytes(last.read_bytes()[:left])
    found, warning = read_state(last)
    assert found["epoch"] == 0
    assert warning.startswith(
        f"last.pt is damaged or cut off ({left:,} bytes); the run continues from last.previous.pt"
    )


def test_a_checkpoint_of_another_program(tmp_path):
    torch.save({"model": torch.nn.Conv2d(3, 3, 1)}, tmp_path / "last.pt")
    with pytest.raises(UserError, match=r"last\.pt was not written by yolofast, or is damaged"):
        read_state(tmp_path / "last.pt")


def test_weights_alone_cannot_be_resumed(tmp_path):
    torch.save({"model": {}}, tmp_path / "last.pt")
    with pytest.raises(UserError, match="not the state of a run: it has no config"):
        read_state(tmp_path / "last.pt")


def test_results_have_a_row_per_epoch(tmp_path):
    Recorder(tmp_path).epoch({"epoch": 0, "time": 1.23456789, "train/box_loss": 0.1})
    again = Recorder(tmp_path, [{"epoch": 0, "time": 1.5, "train/box_loss": 0.1}])
    again.epoch({"epoch": 1, "time": 3.0})
    rows = list(csv.DictReader((tmp_path / "results.csv").open()))
    assert list(rows[0]) == [name for name, _ in columns_with(["box"])], "of the terms there are"
    assert [row["epoch"] for row in rows] == ["0", "1"] and rows[0]["time"] == "1.5"
