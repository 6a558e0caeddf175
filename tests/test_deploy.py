"""What `deploy/` ships: scripts that shellcheck finds nothing wrong with, files that parse, commands that can be typed.

Neither Slurm, Kubernetes, vast.ai nor SkyPilot is here: programs of their names stand in, where a script calls one.
"""

import re
import shlex
import shutil
import signal
import subprocess
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from tests.patience import wait_until
from yolofast.cli import parse
from yolofast.config.flags import from_args
from yolofast.config.train import TrainConfig

DEPLOY = Path(__file__).parents[1] / "deploy"
SCRIPTS = sorted(DEPLOY.glob("*.sh"))


def trained_by(words):
    """The settings that a command line of `yolofast` trains with."""
    args = parse(words)
    assert args.command == "train"
    return from_args(TrainConfig, args)


def program(folder, name, text):
    path = folder / name
    path.write_text(f"#!/usr/bin/env bash\n{text}\n")
    path.chmod(0o755)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
def test_shellcheck_finds_nothing():
    assert len(SCRIPTS) == 3
    checked = subprocess.run(["shellcheck", *SCRIPTS], capture_output=True, text=True)
    assert (checked.stdout, checked.returncode) == ("", 0)


def test_scripts_can_be_started():
    assert all(path.stat().st_mode & 0o111 and path.read_text().startswith("#!/usr/bin/env bash\n") for path in SCRIPTS)


@pytest.fixture
def job(tmp_path):
    """Starts `slurm.sh` with a run that ends with `code`, or as a signal says; what was typed is in `typed`."""
    program(tmp_path, "scontrol", f'echo scontrol "$@" >>{tmp_path}/typed')

    def start(code, *words):
        stops = "trap 'exit 138' USR1; trap 'exit 143' TERM"
        waits = f"touch {tmp_path}/runs; while :; do sleep 0.02; done" if code is None else f"exit {code}"
        program(tmp_path, "yolofast", f'{stops}; echo yolofast "$@" >>{tmp_path}/typed; {waits}')
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "17"}
        return subprocess.Popen([DEPLOY / "slurm.sh", *words], env=environment, stdout=subprocess.DEVNULL)

    return start


@pytest.mark.slow
@pytest.mark.parametrize(("code", "is_queued_again"), [(0, False), (2, False), (75, True)])
def test_a_slurm_job_is_queued_again_where_there_is_more_to_do(job, tmp_path, code, is_queued_again):
    assert job(code, "--data", "a b.yaml").wait() == code
    typed = (tmp_path / "typed").read_text().splitlines()
    assert typed[0] == "yolofast train --data a b.yaml --name slurm-17 --resume auto"
    assert typed[1:] == (["scontrol requeue 17"] if is_queued_again else [])


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_a_slurm_job_that_is_told_to_stop_hands_that_on_and_waits(job, tmp_path, number):
    batch = job(None)
    wait_until((tmp_path / "runs").exists, batch)
    batch.send_signal(number)
    assert batch.wait() == 128 + number
    assert (tmp_path / "typed").read_text().splitlines()[1:] == ["scontrol requeue 17"]


def test_the_slurm_job_asks_for_the_signal_that_it_takes():
    text = (DEPLOY / "slurm.sh").read_text()
    assert "#SBATCH --signal=B:USR1@" in text and "#SBATCH --requeue" in text
    example = re.search(r"sbatch deploy/slurm.sh (.*)", text)[1]
    assert trained_by(["train", *shlex.split(example), "--name", "x", "--resume", "auto"]).resume == "auto"


@pytest.mark.slow
def test_an_instance_trains_again_whenever_it_is_started(tmp_path):
    program(tmp_path, "yolofast", f'echo "$@" >>{tmp_path}/typed')
    program(tmp_path, "curl", f"cp {tmp_path}/there.zip data.zip; echo downloaded >>{tmp_path}/typed")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "data.yaml").write_text("nc: 1\n")
    shutil.make_archive(str(tmp_path / "there"), "zip", tmp_path / "data")
    shutil.rmtree(tmp_path / "data")
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin", "WORKSPACE": str(tmp_path), "NAME": "night",
        "DATA_URL": "https://example.org/data.zip", "TRAIN": "--data data/data.yaml --epochs 3",
    }  # fmt: skip
    for _ in range(2):
        subprocess.run([DEPLOY / "vast-onstart.sh"], env=environment, check=True, stdout=subprocess.DEVNULL)
    typed = tmp_path / "typed"
    wait_until(lambda: len(typed.read_text().splitlines()) == 3)
    first, *runs = typed.read_text().splitlines()
    assert first == "downloaded" and (tmp_path / "data" / "data.yaml").is_file()
    assert runs == ["train --data data/data.yaml --epochs 3 --project runs/train --name night --resume auto"] * 2
    config = trained_by(runs[0].split())
    assert (config.name, config.resume) == ("night", "auto")


@pytest.mark.slow
def test_the_template_has_the_script_and_what_is_trained(tmp_path):
    program(tmp_path, "vastai", f'printf "%s\\0" "$@" >{tmp_path}/typed')
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "NAME": "night", "DATA_URL": "https://example.org/data.zip"}
    run = partial(subprocess.run, [DEPLOY / "vast-template.sh"], capture_output=True, text=True)
    assert run(env=environment | {"TRAIN": 'a "b"'}).returncode == 2
    assert run(env={"PATH": environment["PATH"], "NAME": "night"}).returncode != 0
    assert not (tmp_path / "typed").exists()
    assert run(env=environment | {"TRAIN": "--data data/data.yaml --epochs 3"}).returncode == 0
    typed = (tmp_path / "typed").read_text().split("\0")
    given = dict(pairwise(typed))
    assert typed[:2] == ["create", "template"] and given["--name"] == "yolofast-night"
    assert given["--onstart-cmd"] == (DEPLOY / "vast-onstart.sh").read_text().rstrip("\n")
    values = dict(word.split("=", 1) for word in shlex.split(given["--env"]) if "=" in word)
    assert values == {
        "DATA_URL": "https://example.org/data.zip", "NAME": "night", "TRAIN": "--data data/data.yaml --epochs 3",
    }  # fmt: skip


def test_the_kubernetes_job():
    job = yaml.safe_load((DEPLOY / "kubernetes.yaml").read_text())
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (job["apiVersion"], job["kind"], pod["restartPolicy"]) == ("batch/v1", "Job", "Never")
    config = trained_by(container["args"])
    mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    assert config.resume == "auto" and config.project in mounts and str(Path(config.data).parent) in mounts
    assert set(mounts.values()) == {one["name"] for one in pod["volumes"]}
    assert pod["securityContext"]["runAsUser"] == 1000, "the user of the Dockerfile"
    rules = job["spec"]["podFailurePolicy"]["rules"]
    assert rules[0]["onExitCodes"]["containerName"] == container["name"]


def test_the_skypilot_task():
    task = yaml.safe_load((DEPLOY / "sky.yaml").read_text())
    words = shlex.split(re.sub(r'"\$(\w+)"', lambda name: task["envs"][name[1]], task["run"]))
    assert words[0] == "yolofast"
    config = trained_by(words[1:])
    assert (config.resume, config.project, config.epochs) == ("auto", "/runs", 100)
    assert {"/runs", "/data"} == task["file_mounts"].keys()


def test_the_image_copies_what_is_there_and_is_not_root():
    text = (DEPLOY / "Dockerfile").read_text()
    root = DEPLOY.parent
    for line in re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE):
        assert all((root / name).exists() for name in line.split()), line
    assert re.search(r"^USER yolofast$", text, re.MULTILINE) and "--uid 1000" in text
    assert re.search(r"^torch==", (root / "constraints.txt").read_text(), re.MULTILINE)
