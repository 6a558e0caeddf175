"""The queue: what is trained next, and what happens to a sweep, a trial or a worker that is killed."""

import csv
import json
import sys
from functools import partial

import pytest
import torch

import yolofast
from tests.programs import Program
from tests.train.small_run import NETWORK, flags, shapes_in, state_of
from tests.train.test_resume import assert_same_state
from yolofast.cli import main
from yolofast.errors import UserError
from yolofast.sweep.folder import SweepFolder
from yolofast.sweep.queue import Queue
from yolofast.sweep.results import results_of
from yolofast.sweep.session import evolve

pytestmark = pytest.mark.slow
SETTINGS = "img: 64, batch: 8, workers: 0, cache: 'off', plots: false"


class InProcess:
    """A trial without a process of its own."""

    def __init__(self, words, **options):
        self.words = words[words.index("train") :]
        self.returncode = None

    def poll(self):
        if self.returncode is None:
            self.returncode = main(self.words)
        return self.returncode

    def send_signal(self, number):
        pass

    def wait(self):
        return self.poll()


@pytest.fixture(autouse=True)
def one_core(one_thread, monkeypatch):
    """As the trials' processes have."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def place(tmp_path, monkeypatch):
    shapes_in(tmp_path / "shapes", 24)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def experiment(place, text, epochs=2):
    base = f"base: {{data: shapes/data.yaml, cfg: {NETWORK}, epochs: {epochs}, {SETTINGS}}}\n"
    (place / "small.yaml").write_text(base + text)
    return place / "small.yaml"


def run(*arguments, start=InProcess, lines=None, **settings):
    say = [].append if lines is None else lines.append
    return yolofast.sweep(*arguments, device="cpu", start=start, on_line=say, **settings)


def rows_of(place, name):
    with (place / "runs" / "sweep" / "small" / name / "results.csv").open() as file:
        return list(csv.DictReader(file))


def test_a_grid_with_promotions(place, capsys):
    """Both trials pause after their first epoch, the better one goes on, and other commands take the runs."""
    file = experiment(place, "grid: {lr0: [0.01, 0.02]}\nstop: {asha: {factor: 2}}\nprice: 2\n")
    found = run(file)
    assert sorted(row.state for row in found.rows) == ["complete", "paused after 1"]
    assert not any(row.trial.problem for row in found.rows)
    folder = place / "runs" / "sweep" / "small"
    assert json.loads((folder / "sweep.json").read_text())["best_command"] == found.command
    assert main(["compare", *(str(folder / row.trial.name) for row in found.rows), "--output", "two.html"]) == 0
    assert main(["sweep", "--resume", "--dry-run"]) == 0
    assert "time: at most" in capsys.readouterr().out
    with pytest.raises(UserError, match="there is a sweep in this folder already"):
        run(file)


def test_a_dictionary_is_an_experiment(place):
    base = {"data": "shapes/data.yaml", "cfg": str(NETWORK), "epochs": 1, "img": 64, "batch": 8, "workers": 0}
    spec = {"base": {**base, "cache": "off", "plots": False}, "grid": {"lr0": [0.01]}}
    found = run(spec, name="two")
    assert [row.state for row in found.rows] == ["complete"] and len(found.to_pandas()) == 1
    assert (place / "runs" / "sweep" / "two" / "experiment.yaml").is_file()


def test_a_worker_that_is_killed_is_resumed_to_the_same_bits(place):
    """Its process dies in the second epoch; the trial ends as a run that was never stopped."""
    started = []

    def start(words, **options):
        started.append(words)
        program = ["tests.train.killed_run", "epoch", "2"] if len(started) == 1 else ["yolofast"]
        return Program([sys.executable, "-m", *program, *words[words.index("train") :]], **options)

    lines = []
    found = run(experiment(place, "grid: {lr0: [0.002]}"), start=start, lines=lines)
    assert len(started) == 2 and "ended with exit code -9, is resumed" in " ".join(lines)
    assert [row.state for row in found.rows] == ["complete"]
    plain = ["train", *flags(place, epochs=2, name="plain"), "lr0=0.002"]
    assert main(plain) == 0
    ours = torch.load(place / "runs" / "sweep" / "small" / found.rows[0].trial.name / "weights" / "last.pt")
    assert_same_state(ours, state_of(place, "plain"))


def test_a_sweep_that_is_killed_goes_on_and_waits_for_what_it_left(place, monkeypatch):
    """Killed, it stops nothing: a trial of its still runs, and the resumed sweep must not train it a second time."""
    file = experiment(place, "grid: {assigner: [ota, anchor]}")
    left = []

    def start(words, **options):
        left.append(Program([sys.executable, "-m", "yolofast", *words[words.index("train") :]], **options))
        return left[-1]

    def killed(line):
        if "starts" in line:
            seen.append(line)
        if len(seen) == 2:
            raise MemoryError

    seen = []
    with monkeypatch.context() as patches:
        patches.setattr(Queue, "_stop_all", lambda queue: None)
        with pytest.raises(MemoryError):
            yolofast.sweep(file, device="cpu", start=start, on_line=killed)
    found = run(resume=True, start=start)
    assert [row.state for row in found.rows] == ["complete", "complete"]
    assert [len(rows_of(place, row.trial.name)) for row in found.rows] == [2, 2]
    assert all(one.wait(timeout=None) == 0 for one in left)


def test_an_interrupt_stops_the_trials_resumably(place):
    def start(words, **options):
        programs.append(Program([sys.executable, "-m", "yolofast", *words[words.index("train") :]], **options))
        return programs[-1]

    def interrupt(line):
        if line.endswith("on cpu"):
            said.append(line)
            return
        if "at once" not in line:
            raise KeyboardInterrupt

    programs, said = [], []
    file = experiment(place, "grid: {assigner: [ota, anchor]}\nparallel: 2", epochs=1)
    with pytest.raises(KeyboardInterrupt):
        yolofast.sweep(file, device="cpu", start=start, on_line=interrupt)
    assert len(programs) == 2 and all(one.returncode is not None for one in programs)
    found = run(resume=True)
    assert [row.state for row in found.rows] == ["complete", "complete"]


def test_settings_that_did_not_take_effect_fail_the_trial(place):
    class Forgetful(InProcess):
        def poll(self):
            self.words = [word for word in self.words if not word.startswith(("lr0=", "seed="))]
            return super().poll()

    (row,) = run(experiment(place, "grid: {lr0: [0.002]}\nseeds: [5]", 1), start=Forgetful).rows
    assert row.state == "failed"
    assert "lr0 is 0.01, not 0.002" in row.trial.problem and "seed is 0, not 5" in row.trial.problem
    (again,) = run(resume=True).rows
    assert again.trial.problem == row.trial.problem, "it is complete, so nothing is trained; it has still failed"


def test_a_trial_that_fails_does_not_stop_the_others_and_a_budget_does(place, monkeypatch):
    file = experiment(place, "grid: {freeze: [[no-such-part], [0]]}\n", 1)
    found = run(file)
    assert [row.state for row in found.rows] == ["complete", "failed"]
    monkeypatch.setattr("yolofast.commands.sweep.run_sweep", lambda *given: found)
    assert main(["sweep", "--resume", "--device", "cpu"]) == 1, "a script must see it"
    assert found.rows[1].trial.problem.startswith("exit code 2: ")
    (found.sweep.path / "experiment.yaml").write_text(f"{file.read_text()}budget: {{hours: 0.000001}}\n")
    lines = []
    run(resume=True, lines=lines)
    assert lines[-1].startswith("the budget is spent")


def test_a_search_by_tpe_goes_on_from_what_it_knows(place):
    pytest.importorskip("optuna", reason="the extra yolofast[optuna] is not installed")
    file = experiment(place, "search: {lr0: {log: [0.001, 0.1]}}\nmethod: tpe\nbudget: {trials: 2}\n", 1)
    first = run(file)
    kept = first.sweep.path / "experiment.yaml"
    kept.write_text(kept.read_text().replace("trials: 2", "trials: 3"))
    found = run(resume=True)
    assert [row.state for row in found.rows] == ["complete"] * 3
    assert {row.trial.name for row in first.rows} < {row.trial.name for row in found.rows}


def test_a_population_copies_the_best_and_ends_as_if_its_sweep_was_never_killed(place):
    """Of two runs the worse becomes a copy of the better one with other values, after their first epoch."""
    text = "search: {lr0: {log: [0.0001, 0.02]}, mosaic: {uniform: [0, 1]}}\nmethod: pbt\n"
    file = experiment(place, f"{text}pbt: {{population: 2, every: 1}}\nmetric: val/obj_loss\n")
    said = []
    found = run(file, lines=said)
    (copy,) = (row for row in found.rows if row.trial.parent)
    assert sum("in place of" in line for line in said) == 1
    assert sorted(row.state for row in found.rows) == ["complete", "complete", "replaced after 1"]
    assert not any(row.trial.problem for row in found.rows), "their settings took effect"
    parent = next(row.trial for row in found.rows if row.trial.name == copy.trial.parent)
    assert rows_of(place, copy.trial.name)[0] == rows_of(place, parent.name)[0], "its first epoch is its parent's"
    assert copy.trial.settings["lr0"] != parent.settings["lr0"] and copy.trial.inherited > 0
    assert "is a copy" in (found.sweep.path / "sweep.html").read_text() or found.best is not copy
    (place / "runs").rename(place / "once")

    def killed(line):
        if "in place of" in line:
            raise MemoryError

    with pytest.raises(MemoryError):
        yolofast.sweep(file, device="cpu", start=InProcess, on_line=killed)
    again = run(resume=True)
    assert [row.trial.name for row in again.rows] == [row.trial.name for row in found.rows]
    for row in again.rows:
        if row.state == "complete":
            last = [place / runs / "sweep/small" / row.trial.name / "weights/last.pt" for runs in ("once", "runs")]
            assert_same_state(*map(torch.load, last))


def test_generations(place, monkeypatch):
    """`train --evolve`: each generation has other values than its parent, and the best ones are a file."""
    monkeypatch.setattr("yolofast.sweep.session._GENERATIONS", 3)
    monkeypatch.setattr("yolofast.commands.sweep.evolve", partial(evolve, start=InProcess))
    assert main(["train", *flags(place, epochs=1, name="evolved"), "--evolve"]) == 0
    folder = place / "runs" / "evolve" / "evolved"
    found = results_of(SweepFolder.open(folder))
    assert [row.state for row in found.rows] == ["complete"] * 3
    assert len({(row.trial.settings["box"], row.trial.settings["lr0"]) for row in found.rows}) == 3
    assert (folder / "best-hyp.yaml").is_file() and (folder / "sweep.html").is_file()
