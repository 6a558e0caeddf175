"""`yolofast cloud`: the task it writes, and what it asks SkyPilot's program for. Nothing is rented: programs stand in.

SkyPilot's own parser reads the tasks where it is installed; YOLOFAST_SKYPILOT may name the Python that has it.
"""

import importlib.util
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.test_deploy import program
from yolofast.cli import main, parse
from yolofast.config.flags import from_args
from yolofast.config.reports import PROVIDERS
from yolofast.config.train import TrainConfig


@pytest.fixture
def place(tmp_path, monkeypatch):
    """With a data set, an experiment, and programs that write down what they are asked for."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "set/images").mkdir(parents=True)
    (tmp_path / "set/data.yaml").write_text("path: .\ntrain: images\nval: images\nnames: [a]\n")
    (tmp_path / "first.pt").write_bytes(b"")
    (tmp_path / "Two_Rates.yaml").write_text(
        "base: {data: set/data.yaml, cfg: mini, epochs: 2}\ngrid: {lr0: [0.1, 0.2]}\n"
    )
    (tmp_path / "bin").mkdir()
    for name in ("sky", "rsync", "aws"):
        program(tmp_path / "bin", name, f'echo {name} "$@" >>{tmp_path}/typed; test ! -e {tmp_path}/refuses')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    return tmp_path


def task(capsys, *words):
    assert main(["cloud", "up", *words, "--dry-run"]) == 0
    return yaml.safe_load(capsys.readouterr().out)


def typed_there(run):
    """The words of its shell, whose home is `/home`."""
    return shlex.split(run.replace("$HOME", "/home"))


TRAINED = ("train", "--data", "set", "--weights", "first.pt", "epochs=3", "lr0=0.01", "--name", "night")
AWS = ("--provider", "aws", "--gpu", "L4:2", "--spot", "--runs-in", "s3://mine/runs", "--max-price", "0.6")


def test_a_run_is_one_command_that_continues_itself(place, capsys):
    found = task(capsys, *TRAINED, *AWS)
    assert found["resources"] == {
        "infra": "aws", "accelerators": "L4:2", "disk_size": 100, "use_spot": True, "max_hourly_cost": 0.6,
        "job_recovery": "EAGER_NEXT_REGION",
    }  # fmt: skip
    assert found["file_mounts"] == {
        "~/inputs/data": str(place / "set"), "~/inputs/weights/first.pt": str(place / "first.pt"),
        "~/runs": {"source": "s3://mine/runs", "mode": "MOUNT_CACHED"},
    }  # fmt: skip
    words = typed_there(found["run"])
    config = from_args(TrainConfig, parse(words[1:]))
    assert (config.data, config.weights) == ("/home/inputs/data/data.yaml", "/home/inputs/weights/first.pt")
    assert (config.project, config.name, config.resume, config.epochs) == ("/home/runs", "night", "auto", 3)
    assert config.recipe_values == ("lr0=0.01",)
    assert sorted(path.name for path in place.iterdir() if path.name == "runs") == []


def test_the_machine_gets_what_the_experiment_needs(place, capsys):
    pytest.importorskip("optuna", reason="the extra yolofast[optuna] is not installed")
    text = "base: {cfg: mini, epochs: 2}\nsearch: {lr0: {log: [0.001, 0.1]}}\nmethod: tpe\n"
    (place / "search.yaml").write_text(text)
    assert "yolofast[gpu,optuna]==" in task(capsys, "search.yaml")["setup"]
    assert "yolofast[gpu]==" in task(capsys, "Two_Rates.yaml")["setup"]


@pytest.mark.slow
def test_a_sweep_begins_or_continues(place, capsys):
    found = task(capsys, "Two_Rates.yaml", "epochs=5", "momentum=0.9")
    assert found["name"] == "two-rates" and found["resources"]["infra"] == "vast"
    assert found["file_mounts"]["~/inputs/experiment.yaml"] == str(place / "Two_Rates.yaml")
    home = place / "home"
    (home / "runs" / "two-rates").mkdir(parents=True)
    program(place / "bin", "yolofast", f'printf "%s\\n" "$@" >{place}/asked')
    environment = {**os.environ, "HOME": str(home)}
    subprocess.run(["bash", "-c", found["run"]], env=environment, check=True)
    asked = (place / "asked").read_text().split()
    assert asked[:4] == ["sweep", f"{home}/inputs/experiment.yaml", "epochs=5", "momentum=0.9"]
    assert f"data={home}/inputs/data/data.yaml" in asked and asked[-2:] == ["--name", "two-rates"]
    (home / "runs" / "two-rates" / "trials.json").touch()
    subprocess.run(["bash", "-c", found["run"]], env=environment, check=True)
    assert (place / "asked").read_text().split() == ["sweep", f"{home}/runs/two-rates", "--resume"]


def test_packaged_files_are_there_already(place, capsys):
    found = task(capsys, "batch-and-lr", "data=shapes")
    assert "file_mounts" not in found and "sweep batch-and-lr" in found["run"]


@pytest.mark.slow
def test_a_machine_from_its_rent_to_its_end(place, capsys):
    assert main(["cloud", "up", *TRAINED, "--gpu", "RTX5090:1"]) == 0
    assert main(["cloud", "up", *TRAINED]) == 2, "it is there"
    assert main(["cloud", "pull", "night"]) == 0
    (place / "refuses").touch()
    assert main(["cloud", "stop", "night"]) == 2, "runs that could not be copied are not thrown away"
    (place / "refuses").unlink()
    assert main(["cloud", "stop", "night", "--keep"]) == 0
    assert main(["cloud", "stop", "night", "--no-pull"]) == 0
    assert main(["cloud", "stop", "night"]) == 2
    assert main(["cloud", "cost", "--days", "7"]) == 0
    copied = "rsync --archive --compress night:runs/night/ runs/cloud/night/"
    assert (place / "typed").read_text().splitlines() == [
        "sky launch --yes --detach-run --cluster night --idle-minutes-to-autostop 10 runs/cloud/night.sky.yaml",
        copied, copied, copied, "sky stop --yes night", "sky down --yes night", "sky cost-report --days 7",
    ]  # fmt: skip
    said = capsys.readouterr().err
    assert "night has been launched already" in said and "nothing was launched as night" in said


@pytest.mark.slow
def test_a_job_with_its_runs_in_a_bucket(place):
    assert main(["cloud", "up", *TRAINED, *AWS]) == 0
    assert main(["cloud", "stop", "night"]) == 0
    assert (place / "typed").read_text().splitlines() == [
        "sky jobs launch --yes --detach-run --name night runs/cloud/night.sky.yaml",
        "sky jobs cancel --yes --graceful --name night",
        "aws s3 sync s3://mine/runs/night runs/cloud/night",
    ]


@pytest.mark.slow
def test_what_is_refused_is_not_kept(place, capsys):
    (place / "refuses").touch()
    assert main(["cloud", "up", *TRAINED]) == 2
    assert "sky launch --yes ended with 1" in capsys.readouterr().err
    assert not list(place.glob("runs/cloud/*.json"))
    (place / "runs/cloud/odd.cloud.json").write_text("[]")
    assert main(["cloud", "pull", "odd"]) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gpu", "5"], "--gpu is '5'"),
        (["--spot"], "the run is lost with it"),
        (["--spot", "--provider", "lambda", "--runs-in", "s3://x"], "SkyPilot has none at lambda"),
        (["--runs-in", "s3://x"], "SkyPilot cannot mount one at vast"),
        (["--runs-in", "/x", "--provider", "aws"], "--runs-in is '/x'"),
        (["--project", "x"], "--project is set by cloud itself"),
        (["--epochs", "0"], "--epochs is 0"),
        (["tracker-thresholds"], "trains nothing"),
        (["nope.yaml"], "no such file"),
        (["--data", "far.yaml"], "is not below the folder"),
        (["--data", "root.yaml"], "root.yaml:1: path is absolute"),
        (["plans.yaml"], "grid.plan is mine.yaml, a file of this machine"),
        (["tracked.yaml"], "track.data is mine.yaml, of this machine alone"),
    ],
)
def test_mistakes_cost_nothing(place, capsys, words, message):
    (place / "there").mkdir()
    (place / "far.yaml").write_text(f"train: {place}/there\nval: there\nnames: [a]\n")
    (place / "root.yaml").write_text(f"path: {place}\ntrain: there\nval: there\nnames: [a]\n")
    (place / "mine.yaml").write_text("phases: [{epochs: 100%, freeze: []}]\n")
    (place / "plans.yaml").write_text("base: {cfg: mini}\ngrid: {plan: [null, mine.yaml]}\n")
    tracked = "base: {cfg: mini}\ngrid: {lr0: [0.1]}\nmetric: idf1\ntrack: {data: mine.yaml}\n"
    (place / "tracked.yaml").write_text(tracked)
    assert main(["cloud", "up", *words]) == 2
    assert message in capsys.readouterr().err
    assert not (place / "typed").exists() and not (place / "runs").exists()


def python_with_skypilot():
    named = os.environ.get("YOLOFAST_SKYPILOT")
    return named or (sys.executable if importlib.util.find_spec("sky") else None)


@pytest.mark.slow
@pytest.mark.skipif(python_with_skypilot() is None, reason="SkyPilot (460 MB) is not installed")
def test_skypilot_understands_the_tasks(place, capsys):
    tasks = [task(capsys, *TRAINED, *AWS), task(capsys, "Two_Rates.yaml")]
    tasks += [task(capsys, *TRAINED, "--provider", name, "--max-price", "2") for name in PROVIDERS]
    (place / "sky.json").write_text(json.dumps(tasks))
    shipped = Path(__file__).parents[2] / "deploy" / "sky.yaml"
    code = """
import json, sky, sys, yaml
from sky.utils import common_utils, schemas
for one in json.load(open("sky.json")) + [yaml.safe_load(open(sys.argv[1]))]:
    common_utils.validate_schema(one, schemas.get_task_schema(), "")
    local = {there: here for there, here in one.pop("file_mounts", {}).items() if isinstance(here, str)}
    print(sky.Task.from_yaml_config({**one, "file_mounts": local}).resources)
"""
    done = subprocess.run([python_with_skypilot(), "-c", code, shipped], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 3 + len(PROVIDERS) and "RTX4090" in done.stdout and "A10" in done.stdout
