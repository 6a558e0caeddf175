"""Recipes compared by seeds: on made-up courses, and in one small study that is stopped and continued."""

import json
import math
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from benchmarks.speedrun import Study, held_back, interval, measure, recipe_of, row_of, stacked, variants
from benchmarks.trials import Course, DataSet, Trial, TrialsFile, expected_seconds
from tests.docs.pages import ROOT
from tests.train.small_run import NETWORK, shapes_in, start, state_of
from yolofast import build_model
from yolofast.config.flags import from_settings, resolve
from yolofast.config.hyp import hyp_of, with_set_values
from yolofast.config.train import TrainConfig
from yolofast.dataset.split import read_split
from yolofast.files.yaml_file import read_yaml
from yolofast.train.families.family import completed, rules_of

SPEEDRUNS = ROOT / "benchmarks" / "speedruns"
THREE = [1, 2, 3], [1.0, 2.0, 3.0]
FAST = {0: Course(*THREE, [0.1, 0.3, 0.25]), 1: Course([1, 2, 3], [1.0, 3.0, 5.0], [0.3, 0.2, 0.35])}
SLOW = {0: Course(*THREE, [0.0, 0.1, 0.2]), 1: Course(*THREE, [0.0, 0.1, 0.3])}


def test_an_interval_by_hand():
    """Three values with standard deviation 1: t is 4.303 with two degrees of freedom."""
    middle, half = interval([1.0, 2.0, 3.0])
    assert middle == 2 and half == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)
    assert math.isnan(interval([1.0])[1])


def test_the_first_epoch_at_the_target_counts_not_the_last():
    assert FAST[0].to(0.25) == (2, 2.0) and FAST[0].to(0.31) is None


def test_a_row_compares_seed_by_seed_and_means_nothing_of_some_seeds():
    reached, epochs, seconds, final, paired = row_of(FAST, SLOW, 0.25)
    half = 12.7062 * math.sqrt(0.5) / math.sqrt(2)  # of two values one apart: t with one degree of freedom
    assert (reached, epochs) == ("2 of 2", f"1.5 ± {half:.1f}") and seconds.startswith("1.5 ±")
    assert final == f"30.00 ± {10 * half:.2f}"
    assert paired == "5.00 ± 0.00"
    assert row_of(SLOW, SLOW, 0.25) == ["1 of 2", "–", "–", f"25.00 ± {10 * half:.2f}", ""]


def test_an_ingredient_is_added_or_taken_away():
    base = {"cfg": "a", "optimizer": "muon", "lr0": 0.1}
    found = variants(base, "mine", {"muon": {"optimizer": "muon"}, "slow": {"lr0": 0.01}})
    assert found == {"mine": base, "mine - muon": {"cfg": "a", "lr0": 0.1}, "mine + slow": {**base, "lr0": 0.01}}


def test_every_file_of_recipes_is_understood():
    """As the family would: a value that means nothing is refused here and not in the middle of a study."""
    tiny, nano = (recipe_of(SPEEDRUNS / name) for name in ("yolov7-tiny.yaml", "yolox-nano.yaml"))
    found = {path.name for path in SPEEDRUNS.glob("*.yaml")}
    of_tiny, of_nano = {"ingredients.yaml", "tuning.yaml", "questions.yaml"}, {"yolox-ingredients.yaml"}
    alone = {"guess.yaml", "yolov7-tiny.yaml", "yolox-nano.yaml", "yolox-nano-finetune.yaml"}
    assert found == of_tiny | of_nano | alone
    for base, files in ((tiny, of_tiny), (nano, of_nano)):
        model = build_model(base["cfg"], nc=20)
        for name in files:
            rows, epochs = recipe_of(SPEEDRUNS / name), {} if name == "questions.yaml" else {"epochs": 40}
            every = variants(base, "base", rows)
            assert len(every) == len(rows) + 1
            for settings in every.values():
                given = with_set_values({**settings, **epochs, "data": "none"})
                names = [resolve(TrainConfig, key, value)[0] for key, value in given.items()]
                config = completed(from_settings(TrainConfig, given), names)
                rules = rules_of(config, hyp_of(config), model)
                assert rules.size_range is None, "an epoch costs the same in all of them"
                assert rules.schedule(32).at(39, 31).lr and rules.augmentation and rules.losses()


def test_a_part_is_held_back_by_names_alone(tmp_path):
    data = shapes_in(tmp_path / "shapes", 24)
    split = held_back(data, tmp_path / "choice")
    names = [{path.name for path in map(index.path, range(len(index)))} for index in both(split)]
    train, held = names
    assert train and held and not train & held and len(train | held) == len(read_split(data, "train"))
    assert both(split)[0].labels.size + both(split)[1].labels.size == read_split(data, "train").labels.size
    again = held_back(data, tmp_path / "again").with_name("val.txt")
    assert split.with_name("val.txt").read_bytes() == again.read_bytes()


def both(data):
    return read_split(data, "train"), read_split(data, "val")


DATA = DataSet(None, "made-up", 1600)


def trial(recipe, seed=0, **settings):
    return Trial(recipe, seed, {"epochs": 3, **settings}, DATA)


def test_trials_are_known_by_what_they_are_not_by_what_they_are_called(tmp_path):
    one = trial("a", lr0=0.1)
    assert one.key == trial("b", lr0=0.1).key != trial("a", lr0=0.2).key
    assert one.key != trial("a", seed=1, lr0=0.1).key
    assert one.key != Trial("a", 0, one.settings, DataSet(None, "other", 1600)).key
    file = TrialsFile(tmp_path / "trials.jsonl")
    file.add(one, Course([1, 2], [0.5, 1.0], [math.nan, 0.25]), 2.0, 1)
    (tmp_path / "trials.jsonl").open("a").write('{"key": "cut')
    file.add(trial("a", seed=1), Course([1], [1.0], [0.5]), 2.0, 1)
    again = TrialsFile(tmp_path / "trials.jsonl").courses
    assert list(again) == [one.key, trial("a", seed=1).key]
    assert again[one.key].to(0.2) == (2, 1.0) and math.isnan(again[one.key].maps[0])


def test_rows_are_stacked_best_first_and_kept_if_they_are_worth_more_than_their_error(tmp_path):
    """`worth` is what a row adds, without the seeds' noise but for `shaky`."""
    worth = {"a": 1.0, "b": 3.0, "hurts": -1.0, "clash": 2.0, "shaky": -0.1}
    rows = {name: {name: 1} for name in worth} | {"clash": {"b": 2}}

    class Known(Study):
        def train(self, trials):
            for one in trials:
                points = sum(worth["clash" if (key, value) == ("b", 2) else key] for key, value in one.settings.items())
                points += one.seed + (one.seed == 0 and "shaky" in one.settings)
                self.file.courses[one.key] = Course([1], [1.0], [points / 100])
            return True

    study = Known(DATA, TrialsFile(tmp_path / "trials.jsonl"), tmp_path, 2, 1, math.inf)
    base = {}
    study.train(study.trials(variants(base, "tiny", rows), [0]))
    tried, left = stacked(study, base, "tiny", rows)
    assert left == {"b": 1, "a": 1}, "shaky is better by 0.4 on average, its standard error is 0.5"
    assert list(tried) == ["tiny", "tiny + b", "tiny + b + a", "tiny + b + a + shaky"], "what hurts alone is left out"


def test_a_guess_of_the_time_follows_steps_sizes_and_evaluations():
    base = {"cfg": "yolov7-tiny", "img_size": 320, "batch_size": 64, "epochs": 100, "weights": ""}
    busy, beside = expected_seconds(base, 2000)
    assert busy == pytest.approx(3200 * 8.24e-3) and beside == 56
    busy, beside = expected_seconds({**base, "sizes": [[0, 0.5], [0.5, 1]], "notest": True}, 2000)
    assert busy == pytest.approx(3200 * (2.8 + 64 * 0.085 * 0.625) / 1000) and beside == 6.5


def small_study(tmp_path, *more):
    """Words for a study of two recipes and two seeds."""
    recipe = tmp_path / "small.yaml"
    recipe.write_text(
        f"cfg: {NETWORK}\nweights: ''\nimg_size: 64\nbatch_size: 8\nepochs: 2\nworkers: 0\ndevice: cpu\ncache: 'off'\n"
    )
    (tmp_path / "ingredients.yaml").write_text("warm: {warmup_iterations: 2}\n")
    words = [str(recipe), "--ablate", str(tmp_path / "ingredients.yaml"), "--seeds", "2", "--target", "0"]
    return [*words, "--data", str(shapes_in(tmp_path / "shapes", 24)), "--out", str(tmp_path / "study"), *more]


@pytest.mark.slow
def test_a_study_that_is_killed_goes_on_and_its_runs_are_those_of_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # so that sums are always added in the same order
    trials = tmp_path / "trials.jsonl"
    words = small_study(tmp_path, "--trials", str(trials), "--record", str(tmp_path / "records.md"))
    assert measure([*words, "--minutes", "0"]) == 75
    assert "0 trials are complete; the same command continues" in capsys.readouterr().out
    assert measure([*words, "--dry-run"]) == 0 and "4 trials, 1 at once" in capsys.readouterr().out
    began = subprocess.Popen([sys.executable, "-m", "benchmarks.speedrun", *words], cwd=ROOT, start_new_session=True)
    while not trials.exists() or not trials.read_bytes().endswith(b"\n"):
        assert began.poll() is None
        time.sleep(0.05)
    os.kill(began.pid, signal.SIGKILL)  # the process that trains ends by itself
    began.wait()
    known = TrialsFile(trials).courses
    assert 1 <= len(known) < 4
    assert measure(words) == 0
    said = capsys.readouterr().out
    assert "4 trials are complete" in said and "| small + warm | 2 of 2 | 1.0 ± 0.0 |" in said
    lines = [json.loads(line) for line in trials.read_text().splitlines()]
    assert len(lines) == 4 and lines[0]["key"] in known, "what is complete is not trained again"
    assert [len(line["maps"]) for line in lines] == [2] * 4
    assert (tmp_path / "records.md").read_text().count("| small") == 2
    # The last run of that process is what a process of its own trains.
    (third,) = (tmp_path / "study").glob("small-1-??????")
    alone = start(tmp_path, weights="", seed=1, epochs=2)
    assert alone.wait() == 0
    own = torch.load(third / "weights" / "last.pt", weights_only=True)
    assert all(torch.equal(value, own["model"][name]) for name, value in state_of(tmp_path)["model"].items())


@pytest.mark.slow
def test_a_recipe_is_chosen_on_what_is_held_back_and_written(tmp_path, capsys):
    """Seeds of the better half, then rows on top of each other."""
    words = small_study(tmp_path, "--choose", "--at-once", "2", "--set", "notest=true")
    (tmp_path / "ingredients.yaml").write_text("warm: {warmup_iterations: 2}\nfast: {lr0: 0.02}\n")
    assert measure([*words, "--keep", "0.5"]) == 0
    trials = tmp_path / "study" / "trials.jsonl"
    assert len(trials.read_text().splitlines()) == 3 + 2, "the base and one of two rows got the second seed"
    assert measure([*words, "--stack", str(tmp_path / "fast.yaml")]) == 0
    left = read_yaml(tmp_path / "fast.yaml").values
    assert left["epochs"] == 2 and left["notest"] is True
    assert "held back" in capsys.readouterr().out
