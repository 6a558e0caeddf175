"""Recipes compared by seeds: on made-up courses, and in one small study that is stopped and continued."""

import json
import math

import pytest
import torch

from benchmarks.speedrun import Course, held_back, interval, measure, recipe_of, row_of, variants
from tests.docs.pages import ROOT
from tests.train.small_run import NETWORK, shapes_in, start, state_of
from yolofast.config.flags import from_settings
from yolofast.config.hyp import with_set_values
from yolofast.config.train import TrainConfig
from yolofast.dataset.split import read_split
from yolofast.errors import UserError

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
    ingredients = recipe_of(SPEEDRUNS / "ingredients.yaml")
    base = recipe_of(SPEEDRUNS / "yolov7-tiny.yaml")
    every = [*variants(base, "tiny", ingredients).values(), recipe_of(SPEEDRUNS / "yolox-nano.yaml")]
    assert len(every) == len(ingredients) + 2
    for settings in every:
        from_settings(TrainConfig, with_set_values(settings))
        assert settings["epochs"] == 100


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


@pytest.mark.slow
def test_a_study_goes_on_where_it_stopped_and_its_runs_are_those_of_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # so that sums are always added in the same order
    data = shapes_in(tmp_path / "shapes", 24)
    recipe = tmp_path / "small.yaml"
    recipe.write_text(
        f"cfg: {NETWORK}\nweights: ''\nimg_size: 64\nbatch_size: 8\nepochs: 2\nworkers: 0\ndevice: cpu\ncache: 'off'\n"
    )
    (tmp_path / "ingredients.yaml").write_text("warm: {warmup_iterations: 2}\n")
    words = [str(recipe), "--ablate", str(tmp_path / "ingredients.yaml"), "--data", str(data), "--seeds", "2"]
    words += ["--out", str(tmp_path / "study"), "--target", "0"]
    assert measure([*words, "--minutes", "0"]) == 75
    assert "0 of 4 runs are complete" in capsys.readouterr().out
    assert measure(words) == 0
    said = capsys.readouterr().out
    assert "4 of 4 runs are complete" in said and "| small + warm | 2 of 2 | 1.0 ± 0.0 |" in said
    courses = json.loads((tmp_path / "study" / "speedrun-val.json").read_text())
    assert [len(one["maps"]) for runs in courses.values() for one in runs.values()] == [2] * 4
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "study").glob("*/results.csv")}
    assert measure(words) == 0 and len(before) == 4
    assert before == {path: path.stat().st_mtime_ns for path in before}, "what is complete is not trained again"
    # The third run of that process is what a process of its own trains.
    (third,) = (tmp_path / "study").glob("small-??????-1")
    alone = start(tmp_path, weights="", seed=1, epochs=2)
    assert alone.wait() == 0
    own = torch.load(third / "weights" / "last.pt", weights_only=True)
    assert all(torch.equal(value, own["model"][name]) for name, value in state_of(tmp_path)["model"].items())


@pytest.mark.skipif(torch.cuda.is_available(), reason="refused where there is no GPU")
def test_no_record_is_made_on_a_cpu(tmp_path):
    words = [str(SPEEDRUNS / "yolov7-tiny.yaml"), "--data", "none", "--out", str(tmp_path / "study"), "--target", "0.1"]
    with pytest.raises(UserError, match="a record is made on a GPU"):
        measure([*words, "--record", str(tmp_path / "records.md")])
    assert not list(tmp_path.iterdir())
