"""What trials take, by profiles: programs stand in that write what `yolofast profile --json` would."""

import json
from functools import partial
from pathlib import Path

import pytest

from tests.programs import Program
from tests.sweep.test_order import Pretended
from tests.sweep.test_queue import experiment, one_core, place  # noqa: F401 - fixtures
from yolofast.cli import main
from yolofast.commands import sweep as sweep_command
from yolofast.config.reports import SweepConfig
from yolofast.errors import UserError
from yolofast.sweep.dry_run import dry_run
from yolofast.sweep.experiment import read_experiment
from yolofast.sweep.folder import SweepFolder
from yolofast.sweep.measure import TrialPace, best_together, overlap
from yolofast.sweep.places import Slot
from yolofast.sweep.session import _at_once, run_sweep
from yolofast.sweep.trials import planned

TOTAL = {1: 100, 2: 180, 4: 200, 8: 200}
"""Images a second of so many at once."""


class Gpu:
    """Of 10 GiB; starts programs that profile, all of a call before the first of them is asked."""

    def __init__(self, gib=1.0):
        self.gib, self.begun, self.asked = gib, [], []

    def __call__(self, words, **options):
        self.begun.append(words)
        self.asked.append(words)
        return Profiling(self, words)


class Profiling:
    returncode = 0

    def __init__(self, gpu, words):
        self.gpu, self.file = gpu, Path(words[words.index("--json") + 1])

    def poll(self):
        gpu = self.gpu
        gpu.count, gpu.begun = len(gpu.begun) or gpu.count, []
        rate = TOTAL[gpu.count] / gpu.count
        self.file.write_text(json.dumps({
            "images_per_second": rate, "step_ms": {"mean": 8000 / rate, "std": 0}, "setup": {"steps_an_epoch": 45},
            "usage": {"gpu_memory_gib": gpu.gib, "gpu_memory_total_gib": 10.0},
            "measured_from": 0, "measured_until": 1,
        }))  # fmt: skip
        return 0


def trials_of(tmp_path, text):
    (tmp_path / "small.yaml").write_text(f"base: {{cfg: mini, epochs: 10, batch_size: 8}}\n{text}")
    return planned(read_experiment(tmp_path / "small.yaml"))


@pytest.mark.parametrize(("gib", "best"), [(1.0, 4), (2.5, 2), (8.0, 1)])
def test_as_many_at_once_as_fit_and_pay(tmp_path, gib, best):
    """Of 9 GiB each takes one more for CUDA; from 4 to 8 nothing is gained."""
    gpu, said = Gpu(gib), []
    assert best_together(trials_of(tmp_path, "seeds: 2"), "0", gpu, said.append) == best
    assert f"memory is there for {int(9 / (gib + 1))}" in said[1]
    assert all("seed=0" in words and "--device" in words for words in gpu.asked), "seeds cost the same"


def test_a_sweep_measures_once(tmp_path, monkeypatch):
    monkeypatch.setattr("yolofast.sweep.queue._POLL_S", 0)
    monkeypatch.setattr("yolofast.sweep.session.slots_of", lambda device, parallel: [Slot("0", 0)])
    monkeypatch.setattr(
        "yolofast.sweep.places.slots_of", lambda device, parallel: [Slot("0", number) for number in range(parallel)]
    )
    (tmp_path / "auto.yaml").write_text("base: {cfg: mini, epochs: 3}\nseeds: 4\nparallel: auto\n")
    spec, gpu, lines = read_experiment(tmp_path / "auto.yaml"), Gpu(), []

    def start(words, **options):
        return gpu(words, **options) if "profile" in words else Pretended(words, **options)

    sweep = SweepFolder.new(tmp_path / "auto", spec, planned(spec))
    run_sweep(sweep, SweepConfig(), lines.append, start)
    assert "parallel: auto is 4" in lines and "4 trials, 4 at once" in " ".join(lines)
    asked = len(gpu.asked)
    run_sweep(sweep, SweepConfig(), lines.append, start)
    assert len(gpu.asked) == asked
    with pytest.raises(UserError, match="parallel: auto measures a GPU of this machine, and trials run elsewhere"):
        run_sweep(sweep, SweepConfig(launch="srun", at_once=2), lines.append, start)


def test_trials_on_a_cluster_share_its_gpus_by_what_one_here_says(tmp_path, monkeypatch):
    (tmp_path / "auto.yaml").write_text("base: {cfg: mini, epochs: 3}\nseeds: 4\nparallel: auto\n")
    spec, gpu, lines = read_experiment(tmp_path / "auto.yaml"), Gpu(), []
    sweep = SweepFolder.new(tmp_path / "auto", spec, planned(spec))
    for device, expected in (("0", 4), ("cpu", None)):
        monkeypatch.setattr("yolofast.sweep.session.slots_of", lambda *_, device=device: [Slot(device, 0)])
        if expected is None:
            with pytest.raises(UserError, match="which has none"):
                _at_once(sweep, SweepConfig(address="auto"), lines.append, gpu)
        else:
            assert _at_once(sweep, SweepConfig(address="auto"), lines.append, gpu) == expected
    assert "have to be like this one" in lines[0]


def test_a_dry_run_says_what_trials_take(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trials_of(tmp_path, "grid: {assigner: [anchor, ota], lr0: [0.01, 0.02]}\nprice: 2\n")
    gpu, said = Gpu(), []
    lines = list(dry_run(SweepConfig(experiment="small.yaml", dry_run=True, measure=True), said.append, gpu))
    assert len(said) == len(gpu.asked) == 2, "of four trials two differ in their rate alone"
    # 45 steps of 80 ms, ten times
    assert lines[1].split()[1:3] == ["36.0", "s"]
    assert lines[5].startswith("time: 2 min 24 s on one device, 0.08 of money, by profiles of")


def test_what_profile_refuses_is_told(tmp_path):
    def start(words, **options):
        options["stdout"].write(b"error: no such data")
        return Failed()

    class Failed:
        def poll(self):
            return 2

    with pytest.raises(UserError, match="error: no such data"):
        best_together(trials_of(tmp_path, ""), "0", start, str)


def test_how_much_of_the_time_all_were_side_by_side():
    def pace(began, ended):
        return TrialPace(1, 1, 0, 0, began, ended)

    assert overlap([pace(0, 10), pace(2, 10)]) == 0.8
    assert overlap([pace(0, 1), pace(2, 3)]) == 0


@pytest.mark.slow
def test_a_measured_dry_run(place, capsys, monkeypatch):  # noqa: F811
    monkeypatch.setattr(sweep_command, "dry_run", partial(dry_run, start=Program))
    file = experiment(place, "grid: {lr0: [0.01, 0.02]}\nstop: asha")
    assert main(["sweep", str(file), "--dry-run", "--measure", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "time: at most" in out and "profiles of 1 kind of trials" in out
    assert main(["sweep", str(file), "--measure"]) == 2
    assert not (place / "runs").exists()
