"""How many processes make the batches of a run, how long they live, and how threads wait for one another."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.train.small_run import flags
from yolofast.cli import main, parse
from yolofast.config.flags import from_args, given_settings, parse_flags
from yolofast.config.train import TrainConfig
from yolofast.files import threads
from yolofast.train import data
from yolofast.train.data import workers_of
from yolofast.train.resume import beginning
from yolofast.train.run import prepare_run

ROOT = Path(__file__).parents[2]
# What torch would find when it is imported; nothing else of the program is run.
ASKED_FOR_TORCH = """
import os, runpy, sys

class Torch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(os.environ.get("OMP_WAIT_POLICY"), flush=True)
            os._exit(0)

program, *sys.argv[1:] = sys.argv[1:]
sys.meta_path.insert(0, Torch())
(runpy.run_path if program.endswith(".py") else runpy.run_module)(program, run_name="__main__")
"""


def policy_in(program, *words, **environment):
    without = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    command = [sys.executable, "-c", ASKED_FOR_TORCH, program, *words]
    return subprocess.run(command, env=without | environment, cwd=ROOT, text=True, capture_output=True).stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("yolofast", "train"), ("yolofast", "info"), ("train.py",), ("test.py",), ("detect.py",)], ids=str
)
def test_threads_wait_asleep_before_torch_is_there(words):
    assert policy_in(*words) == "PASSIVE"


@pytest.mark.slow
def test_what_the_user_has_set_stays():
    assert policy_in("yolofast", "train", OMP_WAIT_POLICY="ACTIVE") == "ACTIVE"


def begun(words, script=False):
    if script:
        args = parse_flags(TrainConfig, TrainConfig.published(), words, "train.py")
    else:
        args = parse(["train", *words])
    return beginning(from_args(TrainConfig, args), given_settings(TrainConfig, args)).config


@pytest.mark.slow
@pytest.mark.parametrize(("cores", "ranks", "expected"), [(2, 1, 2), (64, 1, 8), (16, 4, 4), (1, 1, 1), (4, 8, 1)])
def test_no_more_workers_than_cores_unless_typed(monkeypatch, cores, ranks, expected):
    monkeypatch.setattr(data, "usable_cores", lambda: cores)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(ranks))
    assert workers_of(begun([])) == workers_of(begun(["--cfg", "mini"], script=True)) == expected
    assert workers_of(begun(["--workers", "16"])) == 16
    assert workers_of(begun(["--cfg", "mini", "--workers", "8"], script=True)) == 8


def test_cores_are_those_this_process_may_use():
    assert 1 <= threads.usable_cores() <= os.cpu_count()


@pytest.mark.slow
def test_workers_of_short_epochs_stay(tmp_path):
    assert lives_on(prepare_run(begun(flags(tmp_path, workers=2)), lambda text: None))


@pytest.mark.slow
def test_workers_of_long_epochs_do_not(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "_SHORT_EPOCH", 2)
    assert not lives_on(prepare_run(begun(flags(tmp_path, workers=2)), lambda text: None))


def lives_on(run):
    """Whether the processes of the second epoch are those of the first."""
    try:
        seen = []
        for epoch in range(2):
            batches = run.batches.epoch(epoch)
            next(batches)
            seen.append(run.batches.processes())
            for _ in batches:
                pass
        assert all(len(processes) == 2 for processes in seen)
        return seen[0] == seen[1]
    finally:
        run.close()


@pytest.mark.parametrize(("words", "given", "threads"), [([], None, 1), ([], "3", 3), (["--cfg", "mini"], None, 3)])
def test_the_demonstration_computes_in_one_thread(words, given, threads, monkeypatch, tmp_path):
    """Two wait for one another as long as they compute; a real network keeps all cores, and the user's wish counts."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if given:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    counted, before = [], torch.get_num_threads()

    def trained(config, given):
        counted.append(torch.get_num_threads())
        return tmp_path

    monkeypatch.setattr("yolofast.commands.train.train", trained)
    torch.set_num_threads(3)
    try:
        assert main(["train", *words]) == 0
    finally:
        torch.set_num_threads(before)
    assert counted == [threads]


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU would decode them")
def test_a_decoder_of_a_gpu_that_is_not_there_is_said(tmp_path):
    words, said = flags(tmp_path, cache="jpeg", jpeg_decoder="nvjpeg"), []
    words[words.index("--device") + 1] = ""
    prepare_run(begun(words), said.append).close()
    assert "images: --jpeg-decoder nvjpeg has no effect, there is no GPU to decode them" in said
