"""A run that was killed ends as one that was not, bit for bit."""

import random
import shutil
import signal
import time

import pytest
import torch

from tests.patience import wait_until
from tests.train.small_run import flags, killed_at, start, state_of
from yolofast.cli import main

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """As many as the processes have that are killed: sums are then always added in the same order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run that was never stopped, and its last state."""
    folder = tmp_path_factory.mktemp("run")
    assert main(["train", *flags(folder, name="whole")]) == 0
    return folder, state_of(folder, "whole")


def assert_same_state(a, b, where="state"):
    assert type(a) is type(b), where
    if isinstance(a, torch.Tensor):
        assert torch.equal(a, b), where
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            if key not in ("config", "time", "img/s", "data_wait"):
                assert_same_state(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for place, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same_state(x, y, f"{where}[{place}]")
    else:
        assert a == b, where


@pytest.mark.parametrize("moment", ["environment", "epoch"])
def test_killed_before_anything_was_saved(whole, moment, capsys):
    """`--resume` alone resumes it, rather than the older run next to it."""
    folder, expected = whole
    name = f"before-{moment}"
    process = start(folder, name=name, program=killed_at(moment, 1))
    run = folder / "runs" / name
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not list(run.glob("weights/last*")) and not (run / "summary.json").exists()
    assert main(["train", *flags(folder, name=name), "--resume"]) == 0
    assert f"nothing of {run} was saved before it stopped: it starts again" in capsys.readouterr().out
    assert_same_state(state_of(folder, name), expected)


def test_killed_at_a_random_moment(whole):
    """Moments that matter have tests of their own."""
    folder, expected = whole
    name, moment = "killed", random.Random(0)
    process = start(folder, name=name)
    weights = folder / "runs" / name / "weights"
    wait_until((weights / "last.pt").exists, process)
    time.sleep(moment.uniform(0, 0.5))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert main(["train", *flags(folder, name=name), "--resume", str(weights / "last.pt")]) == 0
    assert_same_state(state_of(folder, name), expected)


def test_a_damaged_checkpoint_gives_way_to_the_one_before(whole, capsys):
    folder, expected = whole
    last = shutil.copytree(folder / "runs" / "whole", folder / "runs" / "damaged") / "weights" / "last.pt"
    last.write_bytes(last.read_bytes()[: last.stat().st_size // 2])
    assert main(["train", "--resume", str(last), "--no-plots"]) == 0
    output = capsys.readouterr().out
    assert "warning: last.pt is damaged or cut off" in output and "last.previous.pt" in output
    assert_same_state(state_of(folder, "damaged"), expected)
