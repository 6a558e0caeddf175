"""In which order a sweep trains its trials: a process stands in that writes results and trains nothing."""

import argparse
import json
from pathlib import Path

import pytest

from yolofast.config.resumed import to_yaml, with_lasting_names
from yolofast.config.train import TrainConfig
from yolofast.sweep.experiment import read_experiment
from yolofast.sweep.folder import SweepFolder
from yolofast.sweep.places import LOST, Slot
from yolofast.sweep.queue import Queue
from yolofast.sweep.results import results_of
from yolofast.sweep.session import evolve
from yolofast.sweep.trials import planned

SCORES = {"0": (0.1, 0.5, 0.6), "1": (0.4, 0.4, 0.4), "2": (0.3, 0.6, 0.9), "3": (0.2, 0.2, 0.2)}
"""Of each seed, by epoch."""


class Pretended:
    returncode = 0

    def __init__(self, words, **options):
        if "tracksweep" in words:
            weights, score = Path(words[words.index("--weights") + 1]), words[words.index("--by") + 1]
            self.folder = weights.parents[1]
            rows = (self.folder / "results.csv").read_text().splitlines()[1:]
            maps = [float(row.split(",")[2]) for row in rows]
            # Whoever detects best tracks worst.
            best = max(place for place, value in enumerate(maps) if value == max(maps))
            row = {"epoch": best + 1} | dict.fromkeys(("HOTA", "IDF1", "MOTA"), 1 - max(maps))
            kept = self.folder / "tracking.json"
            before = json.loads(kept.read_text())["epochs"] if kept.exists() else []
            self.files = {"tracking.json": json.dumps({"by": score, "epochs": [*before, row]})}
            self.config = None
            return
        parser = argparse.ArgumentParser()
        for flag, default in (("--project", ""), ("--name", ""), ("--until-epoch", "3")):
            parser.add_argument(flag, default=default)
        self.asked, settings = parser.parse_known_args(words)
        values = dict(word.split("=") for word in settings if "=" in word)
        folder, epochs = f"{self.asked.project}/{self.asked.name}", int(self.asked.until_epoch)
        scores = SCORES[values["seed"]][:epochs]
        self.files = {
            "results.csv": "epoch,time,metrics/mAP50-95(B),metrics/mAP50(B)\n"
            + "".join(f"{place},{60 * (place + 1)},{score},{score}\n" for place, score in enumerate(scores))
        }
        if epochs == 3:
            self.files["summary.json"] = '{"epochs": 3}'
        self.folder, self.config = folder, TrainConfig(cfg="mini", epochs=3, seed=int(values["seed"]))

    def poll(self):
        folder = Path(self.folder)
        folder.mkdir(exist_ok=True)
        if self.config is not None:
            to_yaml(with_lasting_names(self.config), folder / "args.yaml")
        for name, text in self.files.items():
            (folder / name).write_text(text)
        return 0


@pytest.fixture
def trained(tmp_path, monkeypatch):
    monkeypatch.setattr("yolofast.sweep.queue._POLL_S", 0)

    def train(text, slots=1):
        (tmp_path / "small.yaml").write_text(f"base: {{cfg: mini, epochs: 3}}\n{text}")
        experiment = read_experiment(tmp_path / "small.yaml")
        sweep, lines = SweepFolder.new(tmp_path / "small", experiment, planned(experiment)), []
        Queue(sweep, [Slot("cpu", number) for number in range(slots)], lines.append, Pretended).run()
        begun = [line for line in lines if line.endswith("on cpu")]
        return results_of(sweep), begun

    return train


def test_the_best_of_a_rung_is_known_when_those_below_have_come(trained):
    """Nobody runs to its end only because it was the first at the last rung."""
    found, begun = trained("seeds: 4\nstop: {asha: {grace: 1, factor: 2}}\n")
    assert [(row.trial.settings["seed"], row.state) for row in found.rows] == [
        (2, "complete"), (1, "paused after 2"), (3, "paused after 1"), (0, "paused after 1"),
    ]  # fmt: skip
    assert len(begun) == 7, "four to the first rung, two to the second, one to its end"


def test_a_machine_that_goes_is_no_fault_of_the_trial(trained, monkeypatch):
    """Lost four times in a row; a trial that kills itself as often has failed."""
    ends = iter([LOST] * 4 + [0] + [-9] * 3)

    class Lost(Pretended):
        def poll(self):
            self.returncode = next(ends)
            return super().poll() if self.returncode == 0 else self.returncode

    monkeypatch.setattr("tests.sweep.test_order.Pretended", Lost)
    found, begun = trained("seeds: 2\n")
    assert [row.state for row in found.rows] == ["complete", "failed"] and len(begun) == 8
    assert found.rows[1].trial.problem.startswith("exit code -9")


def test_an_evolution_that_is_interrupted_says_how_it_continues(tmp_path):
    class Interrupted(Pretended):
        def poll(self):
            raise KeyboardInterrupt

        def send_signal(self, number):
            pass

        def wait(self):
            return 0

    lines, config = [], TrainConfig(cfg="mini", weights="", epochs=3, project=str(tmp_path), name="ev", device="cpu")
    with pytest.raises(KeyboardInterrupt):
        evolve(config, {}, lines.append, Interrupted)
    assert lines[-1].endswith(f"sweep {tmp_path / 'evolve' / 'ev'} --resume")


def test_one_alone_is_trained_to_its_end(trained):
    found, _ = trained("stop: {asha: {grace: 1, factor: 3}}\n")
    assert [row.state for row in found.rows] == ["complete"]


def test_without_stopping_all_run_at_once(trained):
    found, begun = trained("seeds: 3\n", slots=2)
    assert [row.state for row in found.rows] == ["complete"] * 3 and len(begun) == 3


def test_trials_are_tracked_where_that_judges_them(trained):
    """Whenever one pauses, and at its end; whoever tracks best is continued."""
    text = "seeds: 4\nstop: {asha: {grace: 1, factor: 2}}\nmetric: idf1\ntrack: {data: sequences.yaml}\n"
    found, begun = trained(text)
    assert [(row.trial.settings["seed"], row.state) for row in found.rows] == [
        (0, "complete"), (3, "paused after 2"), (2, "paused after 1"), (1, "paused after 1"),
    ]  # fmt: skip
    assert found.best.progress.best() == 0.9 and found.best.as_json()["best_epoch"] == 1
    tracked = [line for line in begun if "its best weights are tracked" in line]
    assert len(tracked) == 7, "four after their first epoch, and whenever other weights have become the best"
    assert begun[1] == "000-seed=0: its best weights are tracked, on cpu"
