"""Where trials run: behind a launcher, and on a Ray cluster, where Ray is installed."""

import importlib.util
import os
import signal
import threading

import psutil
import pytest
import torch

from tests.patience import wait_until
from tests.sweep.test_order import Pretended
from tests.sweep.test_queue import experiment, one_core, place  # noqa: F401 - fixtures
from tests.train.small_run import flags, state_of
from tests.train.test_resume import assert_same_state
from yolofast.cli import main
from yolofast.config.reports import SweepConfig
from yolofast.errors import UserError
from yolofast.sweep.experiment import read_experiment
from yolofast.sweep.folder import SweepFolder
from yolofast.sweep.places import _Runners, _shares
from yolofast.sweep.session import run_sweep
from yolofast.sweep.trials import planned


def test_a_launcher_stands_before_each_command(tmp_path):
    (tmp_path / "two.yaml").write_text("base: {cfg: mini, epochs: 3}\nseeds: 2\n")
    spec, begun = read_experiment(tmp_path / "two.yaml"), []

    def start(words, **options):
        begun.append(words)
        return Pretended(words, **options)

    sweep = SweepFolder.new(tmp_path / "two", spec, planned(spec))
    lines = []
    run_sweep(sweep, SweepConfig(launch="nice -n 5", at_once=2), lines.append, start)
    assert [words[:3] for words in begun] == [["nice", "-n", "5"]] * 2 and "train" in begun[0]
    assert begun[0][begun[0].index("--device") + 1] == "0", "a job sees the GPU that it was given, and no other"
    assert "2 at once on what nice finds" in lines[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--launch", "no-such-program", "--at-once", "2"], "there is no program ['no-such-program']"),
        (["--launch", '"', "--at-once", "2"], "--launch cannot be understood"),
        (["--launch", "nice"], "--launch and --at-once go together"),
        (["--slurm", "timeout_min=3"], "--slurm and --at-once go together"),
        (["--slurm", "timeout_min=3", "--at-once", "2", "--address", "auto"], "both say where"),
        (["--address", "auto", "--device", "0"], "--device and --address both say where"),
        (["--address", "auto"], "--address"),  # without Ray, or without a cluster
    ],
)
def test_places_that_are_refused(words, message, tmp_path, monkeypatch, capsys):
    if words == ["--address", "auto"] and importlib.util.find_spec("ray"):
        pytest.skip("Ray would look for a cluster")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.yaml").write_text("base: {cfg: mini, epochs: 3}\n")
    assert main(["sweep", "one.yaml", *words]) == 2
    assert message in capsys.readouterr().err


class Rested:
    """As Ray, whose actors are numbers here."""

    def __init__(self):
        self.made, self.killed = 0, []

    def remote(self):
        self.made += 1
        return self.made

    def kill(self, runner):
        self.killed.append(runner)


def test_a_runner_gets_the_next_process_and_one_that_rests_is_let_go():
    ray = Rested()
    runners = _Runners(ray, ray)
    first, second = runners.take(), runners.take()
    runners.give_back(first)
    assert runners.take() == first != second and ray.made == 2
    runners.give_back(second)
    runners.let_go()
    assert ray.killed == []
    runners.let_go(rest_s=-1)
    assert ray.killed == [second]
    assert runners.take() == 3


class Nodes:
    """What Ray says of a cluster."""

    def __init__(self, *resources):
        self.resources = resources

    def nodes(self):
        return [{"Alive": number > 0, "Resources": one} for number, one in enumerate(({"CPU": 64.0}, *self.resources))]


def test_each_trial_asks_for_what_a_node_can_give():
    """A first node has died. A trial that asked for all cores of a cluster would wait forever."""
    assert _shares(Nodes({"CPU": 4.0}, {"CPU": 2.0}), 1, "auto") == (2, {"num_cpus": 2}, "6 cores")
    assert _shares(Nodes({"CPU": 4.0}, {"CPU": 8.0}), 4, "auto") == (8, {"num_cpus": 1}, "12 cores")
    assert _shares(Nodes({"CPU": 4.0}, {"CPU": 8.0, "GPU": 2.0}), 4, "auto") == (8, {"num_gpus": 0.25}, "2 GPUs")
    with pytest.raises(UserError, match="has no cores"):
        _shares(Nodes({"memory": 1.0}), 1, "auto")


def training_in(sweep):
    """The process, which other machines would have; some of those here have ended meanwhile."""
    (found,) = (one for one in psutil.process_iter(["cmdline"]) if str(sweep.path) in (one.info["cmdline"] or []))
    return found


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the extra yolofast[sweep] is not installed")
def test_what_is_killed_on_a_cluster_ends_in_the_same_bits(place):  # noqa: F811
    file = experiment(place, "grid: {lr0: [0.002]}\nstop: {asha: {grace: 1, factor: 2}}\n")
    spec = read_experiment(file)
    sweep, lines = SweepFolder.new(place / "runs/sweep/small", spec, planned(spec)), []

    def kill_its_worker_once():
        wait_until((sweep.run(sweep.trials[0]) / "results.csv").is_file)
        training = training_in(sweep)
        os.kill(training.ppid(), signal.SIGKILL)
        training.kill()

    killer = threading.Thread(target=kill_its_worker_once)
    killer.start()
    found = run_sweep(sweep, SweepConfig(address="local"), lines.append)
    killer.join()
    assert [row.state for row in found.rows] == ["complete"], lines
    assert main(["train", *flags(place, epochs=2, name="plain"), "lr0=0.002"]) == 0
    ours = torch.load(sweep.run(found.rows[0].trial) / "weights" / "last.pt")
    assert_same_state(ours, state_of(place, "plain"))


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the extra yolofast[sweep] is not installed")
def test_a_trial_whose_node_is_lost_continues_on_another(place):  # noqa: F811
    from ray.cluster_utils import Cluster

    file = experiment(place, "grid: {lr0: [0.002]}\nstop: {asha: {grace: 1, factor: 2}}\n")
    spec = read_experiment(file)
    sweep, lines = SweepFolder.new(place / "runs/sweep/small", spec, planned(spec)), []
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    first = cluster.add_node(num_cpus=1)

    def lose_the_node():
        log = sweep.log(sweep.trials[0])
        wait_until(lambda: log.is_file() and "mAP" in log.read_text())
        training_in(sweep).kill()  # as all processes of a machine that goes
        cluster.remove_node(first, allow_graceful=False)

    def say(line):
        if "its machine was lost" in line and not any("its machine was lost" in one for one in lines):
            cluster.add_node(num_cpus=1)
        lines.append(line)

    loser = threading.Thread(target=lose_the_node)
    loser.start()
    try:
        found = run_sweep(sweep, SweepConfig(address=cluster.address), say)
    finally:
        loser.join()
        cluster.shutdown()
    assert [row.state for row in found.rows] == ["complete"], lines
    assert any("its machine was lost, is resumed" in line for line in lines)
    assert main(["train", *flags(place, epochs=2, name="plain"), "lr0=0.002"]) == 0
    ours = torch.load(sweep.run(found.rows[0].trial) / "weights" / "last.pt")
    assert_same_state(ours, state_of(place, "plain"))


def test_a_cluster_that_is_not_there_is_told_at_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("yolofast.sweep.places._ray", lambda: None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.yaml").write_text("base: {cfg: mini, epochs: 3}\n")
    assert main(["sweep", "one.yaml", "--address", "127.0.0.1:1"]) == 2
    assert "--address 127.0.0.1:1: " in capsys.readouterr().err
    assert not (tmp_path / "runs" / "sweep" / "one").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["timeout_min=3"], "there is no program sbatch here"),
        (["cluster=cloud"], "there is no cluster cloud"),
        (["cluster=local", "timout_min=3"], "timout_min"),
    ],
)
def test_jobs_that_are_refused(given, message, tmp_path, monkeypatch, capsys):
    pytest.importorskip("submitit", reason="the extra yolofast[slurm] is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.yaml").write_text("base: {cfg: mini, epochs: 3}\n")
    assert main(["sweep", "one.yaml", "--at-once", "1", "--slurm", *given]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "runs" / "sweep" / "one" / "trials.json").exists(), "the same may be typed again"


@pytest.mark.slow
def test_a_job_that_is_told_to_end_is_continued_by_another_to_the_same_bits(place):  # noqa: F811
    """As Slurm tells it before a time limit; submitit's local cluster stands in for Slurm's."""
    pytest.importorskip("submitit", reason="the extra yolofast[slurm] is not installed")
    file = experiment(place, "grid: {lr0: [0.002]}\nstop: {asha: {grace: 1, factor: 2}}\n")
    spec = read_experiment(file)
    sweep, lines = SweepFolder.new(place / "runs/sweep/small", spec, planned(spec)), []

    def end_the_job():
        log = sweep.log(sweep.trials[0])
        wait_until(lambda: log.is_file() and "mAP" in log.read_text())  # the heading: its first epoch has begun
        (job,) = (place / "runs/sweep/small/jobs").glob("*_submitted.pkl")
        os.kill(int(job.name.split("_")[0]), signal.SIGTERM)

    killer = threading.Thread(target=end_the_job)
    killer.start()
    found = run_sweep(sweep, SweepConfig(slurm=("cluster=local", "gpus_per_node=0"), at_once=1), lines.append)
    killer.join()
    assert [row.state for row in found.rows] == ["complete"], lines
    assert any("ended with exit code 143, is resumed" in line for line in lines)
    assert main(["train", *flags(place, epochs=2, name="plain"), "lr0=0.002"]) == 0
    ours = torch.load(sweep.run(found.rows[0].trial) / "weights" / "last.pt")
    assert_same_state(ours, state_of(place, "plain"))
