"""Runs in the fast gears that are killed, lose their GPU, its memory or a capture: what is left, and what comes next.

Each is a process of its own, which is then resumed by another; all of them work side by side, on the same images.
"""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

from tests.gpu.disturbed_run import BATCH, EPOCH
from tests.programs import Program
from tests.train.small_run import flags

DEVICE = "0"
GEARS = {"killed": "auto", "killed,exact": "auto", "killed,compiled": "graph", "killed,compiled,exact": "graph"}
STOPPED = {
    "killed": -signal.SIGKILL, "killed,exact": -signal.SIGKILL, "killed,compiled": -signal.SIGKILL,
    "killed,compiled,exact": -signal.SIGKILL, "assertion": 2, "address": 2, "memory": 2, "capture": 0,
}  # fmt: skip
"""With the exit code that each ends with."""
BOUND = 0.1
"""Of the sum of the losses, where kernels add in any order or are tuned anew; docs/training.md says why."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """By what happens to them: a future each, of how it ended, how it was resumed, and what both have noted."""
    folder = tmp_path_factory.mktemp("disturbed")
    flags(folder)  # the images, before all of them look
    with ThreadPoolExecutor(len(STOPPED)) as pool:
        begun = {modes: begin(folder, modes, modes.replace(",", "-")) for modes in STOPPED}
        yield {modes: pool.submit(ended_and_resumed, folder, modes, process) for modes, process in begun.items()}


def begin(folder, modes, name, *more):
    """A name without settings is resumed."""
    environment = {**os.environ, "YOLOFAST_CACHE": str(folder / "cache"), "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    settings = ["--resume", str(folder / "runs" / name)]
    if not more:
        changes = {"device": DEVICE, "gear": GEARS.get(modes, "auto"), "cache": "auto", "epochs": EPOCH + 1}
        settings = flags(folder, name=name, **changes)
    notes = folder / f"{name}{'-'.join(('', *more))}.jsonl"
    command = [sys.executable, "-m", "tests.gpu.disturbed_run", str(notes), modes, "train", *settings]
    return Program(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ended_and_resumed(folder, modes, process):
    name = modes.replace(",", "-")
    said, run = process.communicate()[0], folder / "runs" / name
    found = SimpleNamespace(said=said, code=process.returncode, folder=run, notes=notes_of(folder / f"{name}.jsonl"))
    found.marked = (run / "interrupted.json").exists()
    if found.code != 0:
        kept = set(modes.split(",")) & {"exact", "compiled"}
        again = begin(folder, ",".join(kept) or "nothing", name, "resumed")
        found.said_again = again.communicate()[0]
        found.code_again, found.notes_again = again.returncode, notes_of(folder / f"{name}-resumed.jsonl")
    return found


def notes_of(path):
    """Of the last epoch, by batch."""
    lines = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return {line["batch"]: line for line in lines if line["epoch"] == EPOCH}


def assert_resumed(found):
    """From exactly the state at the start of the epoch, to the end of the run."""
    assert found.code_again == 0, found.said_again
    assert found.notes.keys() == set(range(BATCH + 1)) and len(found.notes_again) == 3
    assert found.notes_again[0]["state"] == found.notes[0]["state"]
    state = torch.load(found.folder / "weights" / "last.pt", weights_only=True)
    assert state["next_epoch"] == EPOCH + 1 and not (found.folder / "interrupted.json").exists()


def difference(losses, others):
    """The largest, of terms that are there."""
    return max(abs(losses[name] / other - 1) for name, other in others.items() if other)


def sums_apart(note, other):
    """Relative, of the sums of their terms."""
    return abs(sum(note["losses"].values()) / sum(other["losses"].values()) - 1)


@pytest.mark.parametrize("modes", [modes for modes, code in STOPPED.items() if code < 0])
def test_a_killed_run_goes_on_as_if_nothing_had_happened(modes, runs, capsys):
    found = runs[modes].result()
    assert found.code == -signal.SIGKILL, found.said
    assert "a lower gear" not in found.said + found.said_again
    assert_resumed(found)
    apart = [difference(found.notes_again[batch]["losses"], note["losses"]) for batch, note in found.notes.items()]
    sums = [sums_apart(found.notes_again[batch], note) for batch, note in found.notes.items()]
    with capsys.disabled():
        print(f"\n{modes}: state exact, next losses apart by", *(f"{one:.1e}" for one in apart), end="; ")
        print("their sums by", *(f"{one:.1e}" for one in sums))
    assert max(apart) == 0 if "exact" in modes else max(sums) <= BOUND


@pytest.mark.parametrize(
    ("modes", "reason"), [("assertion", "device-side assert triggered"), ("address", "illegal memory access")]
)
def test_a_gpu_that_fails_ends_a_run_that_can_be_resumed(modes, reason, runs):
    found = runs[modes].result()
    assert found.code == 2 and "Traceback" not in found.said, found.said
    assert "the GPU has failed" in found.said and reason in found.said
    assert f"train --resume {found.folder}" in found.said
    assert found.marked and not list(found.folder.rglob("*.tmp"))
    assert_resumed(found)


def test_memory_that_runs_out_ends_a_run_that_can_be_resumed(runs):
    found = runs["memory"].result()
    assert found.code == 2 and "Traceback" not in found.said, found.said
    assert "memory ran out with a batch of 8" in found.said and "--reduce-batch" in found.said
    assert found.marked
    assert_resumed(found)


def test_a_capture_that_fails_costs_a_gear(runs):
    found = runs["capture"].result()
    assert found.code == 0 and "Traceback" not in found.said, found.said
    assert found.said.count("a lower gear") == 1
    assert len(found.notes) == 3 and not found.marked
