"""`torchrun … train`, as it is typed: two processes, one run; and what happens when one of them dies."""

import csv
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.patience import PATIENCE, wait_until
from tests.programs import Program
from tests.train.small_run import shapes_in
from tests.train.two_ranks import small_cfg_file
from yolofast.cli import main

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
# As `python -m yolofast.cli`, and then tells of threads below Python that are still there: the end of a process whose
# group of ranks is not gone by then is a matter of luck.
TRAIN_AND_TELL = """
import sys
from pathlib import Path
from yolofast.cli import main
code = main(sys.argv[1:])
for name in Path("/proc/self/task").glob("*/comm"):
    if "gloo" in name.read_text():
        print("left behind:", name.read_text())
sys.exit(code)
"""


# The second rank dies once, before its third epoch.
DIE_ONCE = """
import os, signal, sys
from yolofast.cli import main
from yolofast.train.loop import Trainer
train_epoch = Trainer._train_epoch
def dying(trainer, epoch, *rest):
    if epoch == 2 and (os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]) == ("1", "0"):
        os.kill(os.getpid(), signal.SIGKILL)
    return train_epoch(trainer, epoch, *rest)
Trainer._train_epoch = dying
sys.exit(main(sys.argv[1:]))
"""

# The second rank dies in a backward pass, while the first one has begun to add up gradients.
DIE_IN_A_STEP = """
import os, signal, sys
from yolofast.cli import main
from yolofast.train.distributed.averaged_gradients import AveragedGradients
arrived, came = AveragedGradients.arrived, []
def dying(averaged, parameter):
    came.append(parameter)
    if os.environ["RANK"] == "1" and len(came) > 100:
        os.kill(os.getpid(), signal.SIGKILL)
    arrived(averaged, parameter)
AveragedGradients.arrived = dying
sys.exit(main(sys.argv[1:]))
"""


def flags(folder, **changes):
    settings = {
        "data": shapes_in(folder / "shapes", 12), "cfg": small_cfg_file(folder), "img-size": 64, "batch-size": 4,
        "workers": 0, "device": "cpu", "project": folder / "runs", "cache": "disk", "hyp": "data/hyp.scratch.tiny.yaml",
    } | changes  # fmt: skip
    return [word for name, value in settings.items() for word in (f"--{name}", str(value))] + ["--no-plots"]


def torchrun(folder, *program, restarts=0, launcher="tests.train.distributed.light_torchrun"):
    words = ("--standalone", "--nproc-per-node", "2", "--max-restarts", str(restarts))
    return started(folder, "-m", launcher, *words, *program)


def started(folder, *program, **more):
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
        "YOLOFAST_CACHE": str(folder / "cache"),
        **more,
    }
    command = [sys.executable, *program]
    return Program(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("torchrun")


def test_two_processes_are_one_run_that_one_process_can_resume(folder, monkeypatch):
    words = ("train.py", *flags(folder, epochs=2), "--weights", "")
    process = torchrun(folder, *words, launcher="torch.distributed.run")
    output = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, output
    assert output.count("run: ") == output.count("images: cache") == 1 and "Traceback" not in output
    assert [path.name for path in (folder / "runs").iterdir()] == ["exp"]
    made = sorted(path.suffix for path in (folder / "shapes" / ".yolofast").iterdir() if path.suffix != ".npz")
    assert made == sorted(2 * [".index", ".lock", ".pixels"]), "one store for training, one for validation"
    monkeypatch.setenv("YOLOFAST_CACHE", str(folder / "cache"))
    last = folder / "runs" / "exp" / "weights" / "last.pt"
    assert main(["train", "--resume", str(last), "--epochs", "3"]) == 0
    rows = list(csv.DictReader((folder / "runs" / "exp" / "results.csv").open()))
    assert [row["epoch"] for row in rows] == ["0", "1", "2"]
    assert all(float(row["train/box_loss"]) > 0 for row in rows)


def two_started(folder, *program, one_machine):
    """Each gets from its environment what `torchrun` says; forked, they have imported all they need."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    processes = []
    for rank in ("0", "1"):
        local = (rank, "0", "2") if one_machine else ("0", rank, "1")
        places = dict(zip(("LOCAL_RANK", "GROUP_RANK", "LOCAL_WORLD_SIZE"), local, strict=True))
        where = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        processes.append(started(folder, *program, RANK=rank, **places, **where))
    return processes


def test_processes_of_two_machines_are_one_run_too(folder):
    """As on two machines, which see the same paths."""
    program = folder / "train_and_tell.py"
    program.write_text(TRAIN_AND_TELL)
    words = (str(program), "train", *flags(folder, epochs=1, name="machines"), "--weights", "")
    processes = two_started(folder, *words, one_machine=False)
    outputs = [process.communicate(timeout=PATIENCE)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert [output.count("run: ") for output in outputs] == [1, 0], "the first speaks"
    assert not any("left behind" in output for output in outputs), outputs
    assert torch.load(folder / "runs" / "machines" / "weights" / "last.pt", weights_only=True)["next_epoch"] == 1


def test_when_one_process_dies_the_other_says_so_and_stops(folder):
    process = torchrun(folder, "-m", "yolofast.cli", "train", *flags(folder, epochs=100_000, name="killed"))
    last = folder / "runs" / "killed" / "weights" / "last.pt"
    wait_until(last.exists, process)
    ranks = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(ranks) == 2
    os.kill(int(ranks[1]), signal.SIGKILL)
    output = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode not in (0, None)
    assert output.count("yolofast: error: ") == 1, output
    assert "another process of the run has ended" in output and "--resume" in output
    assert not any(Path(f"/proc/{rank}").exists() for rank in ranks)
    assert torch.load(last, weights_only=True)["next_epoch"] >= 1


def test_when_one_process_dies_in_a_step_the_other_does_not_wait_for_it(folder):
    program = folder / "die_in_a_step.py"
    program.write_text(DIE_IN_A_STEP)
    process = torchrun(folder, str(program), "train", *flags(folder, epochs=100_000, name="in_a_step"))
    output = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode not in (0, None)
    assert output.count("yolofast: error: ") == 1 and "another process of the run has ended" in output, output


def test_a_launcher_that_tries_again_continues_the_run(folder):
    program = folder / "die_once.py"
    program.write_text(DIE_ONCE)
    (folder / "runs" / "again").mkdir(parents=True)  # so the run is another one than its name says
    process = torchrun(folder, str(program), "train", *flags(folder, epochs=3, name="again"), restarts=1)
    output = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, output
    assert "another process of the run has ended" in output
    assert re.search(r"run: .*again2, resumes with epoch [23] of 3", output), output
    assert not (folder / "runs" / "again3").exists()
    rows = list(csv.DictReader((folder / "runs" / "again2" / "results.csv").open()))
    assert [row["epoch"] for row in rows] == ["0", "1", "2"]


def test_told_to_stop_the_first_process_leaves_mark_and_report(folder):
    """As a launcher tells them, one after the other."""
    words = ("-m", "yolofast.cli", "train", *flags(folder, epochs=100_000, name="told"))
    processes = two_started(folder, *words, one_machine=True)
    run = folder / "runs" / "told"
    wait_until((run / "weights" / "last.pt").exists, processes[0])
    for process in processes:
        process.terminate()
    output = "".join([process.communicate(timeout=PATIENCE)[0] for process in processes])
    assert all(process.returncode not in (0, None) for process in processes)
    assert output.count("yolofast: error: ") == 1 and "KeyboardInterrupt" not in output, output
    assert output.count("interrupted; to resume: ") == 1, output
    assert (run / "interrupted.json").exists() and (run / "report.html").exists()
