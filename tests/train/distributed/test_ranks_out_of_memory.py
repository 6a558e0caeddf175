"""A batch that does not fit on one of two ranks: both leave the epoch and continue with a batch that fits on both."""

import csv
import os

import pytest
import torch

from tests.train.distributed.test_distributed_command import flags
from tests.train.small_run import shapes_in, state_of
from tests.train.test_resume import assert_same_state
from yolofast.cli import main
from yolofast.train import fitting_batch
from yolofast.train.distributed.launch import launch
from yolofast.train.step import TrainStep

pytestmark = pytest.mark.slow

ROOM = (8, 3)
"""Images that are found to fit on each rank."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(autouse=True)
def _own_cache(folder, monkeypatch):
    monkeypatch.setenv("YOLOFAST_CACHE", str(folder / "cache"))


def words(folder, name, batch, *more, epochs=1):
    changes = {"batch-size": batch, "epochs": epochs, "name": name, "weights": "", "cache": "off"}
    changes["data"] = shapes_in(folder / "pictures", 24)
    return ["train", *flags(folder, **changes), "--notest", *more]


def by_two(command, *work):
    """The command, typed for two ranks; its exit code where it fails."""
    try:
        launch(_rank, (command, *work), 2)
    except SystemExit as ended:
        return ended.code
    return 0


def _rank(report, command, small=None, after_steps=0, room=(), fits=2):
    """On the rank `small` no more than two images of a batch fit, once there were so many steps."""
    torch.set_num_threads(1)
    own, run, steps = int(os.environ["RANK"]), TrainStep.run, []

    def run_small_batches(step, images, *more):
        steps.append(len(images))
        if own == small and len(images) > fits and len(steps) > after_steps:
            raise torch.OutOfMemoryError
        run(step, images, *more)

    TrainStep.run = run_small_batches
    if room:  # as on GPUs, whose memory is measured
        fitting_batch.device_of_rank = lambda name: torch.device("cuda", own)
        fitting_batch._own_part = lambda config, data, device, most: min(room[own], most)
    code = main(command)
    report("")
    return code


@pytest.fixture(scope="module")
def small_from_the_start(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("YOLOFAST_CACHE", str(folder / "cache"))
        assert by_two(words(folder, "by_hand", 4)) == 0
    return state_of(folder, "by_hand")


@pytest.mark.parametrize("small", [0, 1])
def test_the_epoch_starts_again_with_a_smaller_batch_on_all_ranks(folder, small_from_the_start, capfd, small):
    """24 images: the second step of three is the one that does not fit."""
    name = f"reduced{small}"
    assert by_two(words(folder, name, 8, "--reduce-batch"), small, 1) == 0
    said = capfd.readouterr()
    assert said.out.count("memory ran out with a batch of 8: the epoch starts again with 4 (half of it)") == 1
    assert "Traceback" not in said.err
    assert "batch_size: 4" in (folder / "runs" / name / "args.yaml").read_text()
    assert_same_state(state_of(folder, name), small_from_the_start)


def test_a_later_epoch_keeps_the_earlier_ones(folder):
    assert by_two(words(folder, "later", 8, "--reduce-batch", epochs=3), 1, 3) == 0
    rows = list(csv.DictReader((folder / "runs" / "later" / "results.csv").open()))
    assert [row["epoch"] for row in rows] == ["0", "1", "2"]
    assert "batch_size: 4" in (folder / "runs" / "later" / "args.yaml").read_text()


def test_no_batch_fits(folder, capfd):
    """Ranks meet again as often as they have to."""
    assert by_two(words(folder, "none", 8, "--reduce-batch"), 1, 0, (), 0) == 2
    said = capfd.readouterr()
    assert [f"starts again with {batch} " in said.out for batch in (4, 2, 1)] == [True, True, False]
    assert said.err.count("yolofast: error: ") == 1 and "a batch of 2, and no smaller one fits" in said.err


def test_without_the_flag_a_message_names_it(folder, capfd):
    assert by_two(words(folder, "message", 8), 1) == 2
    error = capfd.readouterr().err
    assert error.count("yolofast: error: ") == 1 and "Traceback" not in error
    assert "--batch-size 4 (half of it), or --reduce-batch to continue by itself" in error


def test_the_largest_batch_is_the_one_that_fits_on_every_rank(folder, capfd):
    assert by_two(words(folder, "largest", -1), None, 0, ROOM) == 0
    assert "batch size: 6 (3 on each of 2 GPUs), the largest that takes" in capfd.readouterr().out
    assert "batch_size: 6" in (folder / "runs" / "largest" / "args.yaml").read_text()
