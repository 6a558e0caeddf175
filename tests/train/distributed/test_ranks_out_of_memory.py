"""A batch that does not fit on one of two ranks: both leave the epoch and continue with a batch that fits on both."""

import csv
import json
import os
import sys

import pytest

from tests.patience import PATIENCE
from tests.programs import run
from tests.train.distributed.test_distributed_command import flags
from tests.train.small_run import shapes_in, state_of
from tests.train.test_resume import assert_same_state

pytestmark = pytest.mark.slow

ROOM = (8, 3)
"""Images that are found to fit on each rank."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ranks")


def words(folder, name, batch, *more, epochs=1):
    changes = {"batch-size": batch, "epochs": epochs, "name": name, "weights": "", "cache": "off"}
    changes["data"] = shapes_in(folder / "pictures", 24)
    return ["train", *flags(folder, **changes), "--notest", *more]


def by_two(folder, command, small=None, after_steps=0, fits=2, room=()):
    """The command, typed for two ranks."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "YOLOFAST_CACHE": str(folder / "cache")}
    how = json.dumps([command, small, after_steps, fits, room])
    return run([sys.executable, "-m", "tests.train.distributed.tight_ranks", how], env=environment, timeout=PATIENCE)


@pytest.fixture(scope="module")
def small_from_the_start(folder):
    done = by_two(folder, words(folder, "by_hand", 4))
    assert done.returncode == 0, done.stderr
    return state_of(folder, "by_hand")


@pytest.mark.parametrize("small", [0, 1])
def test_the_epoch_starts_again_with_a_smaller_batch_on_all_ranks(folder, small_from_the_start, small):
    """24 images: the second step of three is the one that does not fit."""
    name = f"reduced{small}"
    done = by_two(folder, words(folder, name, 8, "--reduce-batch"), small, after_steps=1)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert done.stdout.count("memory ran out with a batch of 8: the epoch starts again with 4 (half of it)") == 1
    assert "batch_size: 4" in (folder / "runs" / name / "args.yaml").read_text()
    assert_same_state(state_of(folder, name), small_from_the_start)


def test_a_later_epoch_keeps_the_earlier_ones(folder):
    done = by_two(folder, words(folder, "later", 8, "--reduce-batch", epochs=3), small=1, after_steps=3)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((folder / "runs" / "later" / "results.csv").open()))
    assert [row["epoch"] for row in rows] == ["0", "1", "2"]
    assert "batch_size: 4" in (folder / "runs" / "later" / "args.yaml").read_text()


def test_no_batch_fits(folder):
    """Ranks meet again as often as they have to."""
    done = by_two(folder, words(folder, "none", 8, "--reduce-batch"), small=1, fits=0)
    assert done.returncode == 2, done.stderr
    assert [f"starts again with {batch} " in done.stdout for batch in (4, 2, 1)] == [True, True, False]
    assert done.stderr.count("yolofast: error: ") == 1 and "a batch of 2, and no smaller one fits" in done.stderr


def test_without_the_flag_a_message_names_it(folder):
    done = by_two(folder, words(folder, "message", 8), small=1)
    error = done.stderr
    assert done.returncode == 2 and error.count("yolofast: error: ") == 1 and "Traceback" not in error
    assert "--batch-size 4 (half of it), or --reduce-batch to continue by itself" in error


def test_the_largest_batch_is_the_one_that_fits_on_every_rank(folder):
    done = by_two(folder, words(folder, "largest", -1), room=ROOM)
    assert done.returncode == 0, done.stderr
    assert "batch size: 6 (3 on each of 2 GPUs), the largest that takes" in done.stdout
    assert "batch_size: 6" in (folder / "runs" / "largest" / "args.yaml").read_text()
