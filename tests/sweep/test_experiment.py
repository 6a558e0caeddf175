"""Experiment files: every entry is understood or refused with its line, and what they make of trials."""

import math
import sys
from unittest.mock import Mock

import numpy as np
import pytest

from yolofast.cli import main
from yolofast.commands.sweep import tracksweep_words
from yolofast.config.reports import SweepConfig
from yolofast.errors import UserError
from yolofast.resources import short_names
from yolofast.sweep.draws import DrawnRange, mutated, read_constraint
from yolofast.sweep.experiment import read_experiment
from yolofast.sweep.population import _copy
from yolofast.sweep.stopping import read_stopping
from yolofast.sweep.trials import next_generation, planned, suggested_trial, words_of


@pytest.fixture
def read(tmp_path):
    def write(text):
        path = tmp_path / "experiment.yaml"
        path.write_text(text)
        return read_experiment(path)

    return write


def test_a_grid_with_a_list_and_seeds(read):
    text = """
base: {cfg: mini, epochs: 3}
list: {short: {}, long: {epochs: 9}}
grid: {assigner: [anchor, ota], lr0: [0.01, 1e-3]}
constraints: [epochs * lr0 < 0.05]
seeds: 2
"""
    trials = planned(read(text))
    assert len(trials) == 12, "of 2 × 2 × 2 the long ones with the larger rate are left out"
    assert trials[1].name == "001-short-assigner=anchor-lr0=0.01-seed=1"
    assert trials[1].settings == {"cfg": "mini", "epochs": 3, "assigner": "anchor", "lr0": 0.01, "seed": 1}
    assert trials[-1].varied == {"list": "long", "assigner": "ota", "lr0": 0.001, "seed": 1}
    assert {trial.settings["epochs"] for trial in trials if trial.settings["lr0"] == 0.01} == {3}


def test_other_names_of_a_setting_mean_the_same(read):
    """`batch` of the base is the `batch_size` of a grid, of the command line and of a constraint."""
    text = "base: {cfg: mini, batch: 8}\ngrid: {batch_size: [4, 16, 32]}\nconstraints: [batch * img <= 5120]\n"
    trials = planned(read(text))
    assert [trial.settings for trial in trials] == [
        {"cfg": "mini", "batch_size": size, "seed": 0} for size in (4, 16)
    ], "32 images of 320 pixels, which nobody has given, are too many"
    trials = planned(read_experiment("size-320-480-640", ["batch=8"]))
    assert {trial.settings["batch_size"] for trial in trials} == {8}
    assert "img_size=320" in words_of(trials[0].settings), "without brackets, which a shell would want quoted"
    assert len(planned(read("base: {cfg: mini}\ngrid: {img_size: [[64], 320]}\nconstraints: [img < 300]"))) == 1
    single = read_experiment("size-320-480-640", ["seeds=1", "price=0.6", "parallel=auto", "seed=4"])
    assert (len(planned(single)), single.price, single.parallel, single.base["seed"]) == (3, 0.6, 0, 4)
    assert read(single.text).price == 0.6, "as it is kept"
    with pytest.raises(UserError, match=r"base\.batch and another name of batch_size are both given"):
        read("base: {cfg: mini, batch_size: 4, batch: 8}")
    sets = planned(read("base: {cfg: mini}\ngrid: {lr0: [0.001, 0.1]}\nconstraints: [lr0 <= lrf]"))
    assert [trial.settings["lr0"] for trial in sets] == [0.001, 0.1], "lrf is 0.1, as published"


def test_seeds_count_from_that_of_the_base(read):
    """A number of seeds never replaces the seed that was given."""
    text = "base: {cfg: mini, seed: 7}\ngrid: {lr0: [0.01]}\n"
    seeds = [[one.settings["seed"] for one in planned(read(text + more))] for more in ("", "seeds: 1", "seeds: 3")]
    assert seeds == [[7], [7], [7, 8, 9]]
    single = read_experiment("size-320-480-640", ["seeds=1", "seed=4"])
    assert {one.settings["seed"] for one in planned(single)} == {4}
    assert [one.settings["seed"] for one in planned(read(f"{text}seeds: [9, 7]"))] == [9, 7]
    own = planned(read("base: {cfg: mini, seed: 7}\nlist: {own: {seed: 3}, base: {}}"))
    assert [one.settings["seed"] for one in own] == [3, 7], "an entry of a list may have its own"


def test_nothing_is_the_default(read):
    trials = planned(read("base: {cfg: mini}\ngrid: {plan: [null, yolov7-tiny-planned]}"))
    assert "plan" not in trials[0].settings and trials[1].settings["plan"] == "yolov7-tiny-planned"


def test_epochs_may_be_a_share_of_those_of_the_others():
    """So that the packaged experiment keeps its question at another length."""
    trials = planned(read_experiment("ota-vs-anchor-equal-cost", ["epochs=8"]))
    assert [one.settings["epochs"] for one in trials] == [8] * 6 + [10] * 3 + [12] * 3


def test_what_yaml_takes_for_a_no_is_a_word(read):
    """`cache: off` without quotes."""
    trials = planned(read("base: {cfg: mini, cache: off, plots: off}\ngrid: {cache: [ram, off]}"))
    assert [words_of(trial.settings)[1:4] for trial in trials] == [
        ["cfg=mini", "cache=ram", "plots=false"], ["cfg=mini", "cache=off", "plots=false"],
    ]  # fmt: skip


def test_a_random_search_draws_the_same_again(read):
    text = """
base: {cfg: mini}
grid: {assigner: [anchor, ota]}
search: {lr0: {log: [1e-4, 1e-2]}, mixup: {uniform: [0, 0.5]}, batch_size: {int: [4, 6]}, optimizer: [sgd, adamw]}
constraints: ["batch_size != 5"]
budget: {trials: 24}
"""
    trials = planned(read(text))
    assert [trial.settings for trial in planned(read(text))] == [trial.settings for trial in trials]
    assert len(trials) == 24 == len({repr(trial.settings) for trial in trials})
    assert {trial.settings["batch_size"] for trial in trials} == {4, 6}
    assert {trial.settings["assigner"] for trial in trials} == {"anchor", "ota"}
    rates = [trial.settings["lr0"] for trial in trials]
    assert min(rates) >= 1e-4 and max(rates) <= 1e-2 and 6 <= sum(rate < 1e-3 for rate in rates) <= 18


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grdi: {lr0: [1]}", ":1: grdi is no entry of an experiment, did you mean 'grid'"),
        ("base: {cfg: mini}\ngrid: {lr: [0.1]}", ":2: grid.lr is no setting of train, did you mean"),
        ("base: {name: x}", "base.name is set by the sweep itself"),
        ("grid: {lr0: 0.1}", "grid.lr0 is 0.1\n  fix: give a list of values"),
        ("search: {lr0: {log: [0, 1]}}", "the smaller end first, above 0 for log"),
        ("search: {lr0: {lgo: [1, 2]}}", "search.lr0 is"),
        ("method: random", "there is no search"),
        ("method: tpe\ngrid: {lr0: [0.1]}", "method is tpe, but there is no search"),
        ("method: tpe\nsearch: {lr0: [0.1]}\nseeds: 2", "seeds has several"),
        ("method: grid\nsearch: {lr0: {log: [1e-4, 1]}}", "a grid has no end"),
        ("method: evolve\ngrid: {epochs: [3]}", "evolve changes hyper-parameters of YOLOv7 alone"),
        ("constraints: [lr0]", "constraints has 'lr0'"),
        ("constraints: [batchsize < 3]", "constraints.batchsize is no setting of train, did you mean 'batch_size'"),
        ("grid: {assigner: [ota]}\nconstraints: [assigner < 3]", "compares 'ota' with 3"),
        ("grid: {lr0: [0.1]}\nconstraints: [lr0 > 1]", "constraints leave no combination"),
        ("list: {o: {lr0: 0.1}}\ngrid: {lr0: [0.2]}", "grid.lr0 is in list.o, too"),
        ("search: {lr0: [0.1]}\ngrid: {lr0: [0.2]}", "grid.lr0 is in search, too"),
        ("grid: {seed: [1, 2]}\nseeds: 2", "grid.seed is in seeds, too"),
        ("list: {a: {seed: 3}}\nseeds: 2", "list.a.seed is in seeds, too"),
        ("base: {seed: 7}\nseeds: [0, 1]", "seeds is [0, 1], but base.seed is 7\n  fix: seeds: 2 counts from that"),
        ("method: pbt", "method is pbt, but there is no search"),
        ("method: pbt\nsearch: {batch_size: [1, 2]}", "pbt changes hyper-parameters of YOLOv7 alone, not batch_size"),
        ("method: pbt\nsearch: {lr0: [0.1]}\nbudget: {trials: 4}", "budget.trials does not go with pbt"),
        ("method: pbt\nsearch: {lr0: {log: [0.001, 0.1]}}\nstop: asha", "stop does not go with pbt"),
        (
            "method: pbt\nsearch: {lr0: {log: [0.001, 0.1]}}\npbt: {evry: 2}",
            "pbt.evry is no entry, did you mean 'every'",
        ),
        ("method: pbt\nsearch: {lr0: {log: [0.001, 0.1]}}\npbt: {population: 1}", "a population of at least 2"),
        ("method: pbt\nsearch: {lr0: {log: [0.001, 0.1]}}\npbt: {every: 100}", "but runs have 100 epochs"),
        ("search: {lr0: {log: [0.001, 0.1]}}\npbt: {every: 1}", "pbt is given, but method is another"),
        ("metric: mpa", "metric is 'mpa', did you mean 'map'"),
        ("metric: train/nonsense", "metric is 'train/nonsense'"),
        ("metric: {hours_to: 30}", "metric is {'hours_to': 30}"),
        ("metric: {hour_to: 0.3}", "did you mean 'hours_to'"),
        ("metric: {money_to: 0.3}", "metric.money_to needs the price of an hour"),
        ("metric: idf1", "track does not say what is tracked"),
        ("metric: idf1\ntrack: {dta: a.yaml}", "did you mean"),
        ("track: {data: a.yaml}", "track is given, but metric is another"),
        ("budget: {money: 3}", "needs the price of an hour"),
        ("budget: {days: 3}", "budget.days is no limit"),
        ("budget: {hours: -3}", "budget.hours is -3\n  fix: give a number above 0"),
        ("stop: {asah: {}}", "stop is {'asah': {}}, did you mean 'asha'"),
        ("stop: {asha: {factor: 1}}", "stop.asha.factor is 1\n  fix: give a whole number of at least 2"),
        ("seeds: []", "seeds is []"),
        ("parallel: 0", "parallel is 0"),
        ("list: {a: 3}", "list.a is 3"),
        ("grid: {epochs: [0]}", "the trial 000-epochs=0 cannot be run: --epochs is 0"),
        ("grid: {lr0: [0.1, 99]}", "the trial 001-lr0=99 cannot be run: lr0 is 99"),
        ("base: {cfg: yolox-nano}\ngrid: {lr0: [0.1]}", "a YOLOX recipe has no 'lr0'"),
    ],
)
def test_mistakes_are_found_before_anything_runs(read, text, message):
    with pytest.raises(UserError) as error:
        planned(read(text))
    assert message in str(error.value)


def test_constraints_compare_products_and_leave_alone_what_a_trial_does_not_have():
    area = read_constraint("batch_size * img_size <= 20480")
    assert area.holds({"batch_size": 64, "img_size": 320}) and not area.holds({"batch_size": 64, "img_size": 640})
    assert area.holds({"batch_size": 64}) and read_constraint("assigner == ota").holds({"assigner": "ota"})
    assert not read_constraint("assigner == ota").holds({"assigner": "anchor"})


def test_the_rungs_of_asha_and_who_is_promoted():
    stopping = read_stopping({"asha": {"grace": 2, "factor": 3}}, 20)
    assert stopping.rungs == (2, 6, 18) and [stopping.next(n) for n in (0, 2, 5, 18)] == [2, 6, 6, None]
    values = dict(zip("abcdefg", (1, 7, 3, 6, 5, 2, 4), strict=True))
    assert stopping.promoted(values, all_there=False) == {"b", "d"}
    assert stopping.promoted({"a": 1, "b": 2}, all_there=False) == set()
    assert stopping.promoted({"a": 1, "b": 2}, all_there=True) == {"b"}
    assert read_stopping("asha", 1).rungs == ()


def test_the_median_rule():
    stopping = read_stopping({"median": {"grace": 2}}, 10)
    assert stopping.rungs == (2, 4, 6, 8)
    assert stopping.promoted({"a": 1, "b": 2}, all_there=False) == {"a", "b"}, "two have no middle"
    assert stopping.promoted({"a": 1, "b": 2, "c": 3}, all_there=False) == {"b", "c"}


def test_generations_come_from_the_fittest_and_stay_in_their_ranges():
    ranges = {"lr0": DrawnRange("log", (0.009, 0.02)), "mosaic": DrawnRange("choice", ())}
    parents = [({"lr0": 0.01, "mosaic": 0.9, "epochs": n}, float(n)) for n in range(8)]
    children = [mutated(parents, ranges, np.random.default_rng(seed)) for seed in range(300)]
    assert {child["epochs"] for child in children} <= {3, 4, 5, 6, 7}, "of the five best"
    counts = [sum(child["epochs"] == n for child in children) for n in (4, 7)]
    assert counts[1] > 2 * counts[0], "by their fitness: 4 times as often"
    assert all(0.009 <= child["lr0"] <= 0.02 and 0 <= child["mosaic"] <= 1 for child in children)
    assert all((child["lr0"], child["mosaic"]) != (0.01, 0.9) for child in children if child["mosaic"] < 0.9)
    changed = np.mean([child["lr0"] != 0.01 for child in children])
    assert 0.7 < changed < 0.95, "with a probability of 0.8, and at least one of two"


def test_packaged_experiments_are_read_and_planned():
    names = short_names("experiments")
    assert len(names) == 5
    sizes = dict.fromkeys(names, 0)
    for name in names:
        experiment = read_experiment(name)
        if experiment.command == "tracksweep":
            words = tracksweep_words(experiment, SweepConfig())
            assert words[0] == "tracksweep" and "--set" in words
        else:
            sizes[name] = len(planned(experiment))
    assert all(1 < size <= 40 for name, size in sizes.items() if name != "tracker-thresholds"), sizes


def test_tpe_tries_where_the_good_ones_are(read):
    """Of a bowl with its bottom at lr0 = 0.001 and mixup = 0.4; the next one is the same from the same trials."""
    pytest.importorskip("optuna", reason="the extra yolofast[optuna] is not installed")
    experiment = read("""
base: {cfg: mini}
grid: {freeze: [[0], [0, 1]]}
search: {lr0: {log: [1e-4, 1e-1]}, mixup: {uniform: [0, 1]}, batch_size: {int: [2, 9]}}
constraints: [mixup != 0.5]
method: tpe
""")
    known = []
    for number in range(40):
        varied = suggested_trial(experiment, known, number).varied
        far = np.log10(varied["lr0"] / 1e-3) ** 2 + 4 * (varied["mixup"] - 0.4) ** 2 + len(varied["freeze"])
        is_paused = number % 3 == 0
        known.append((varied, None if number == 30 else -far, 1 if is_paused else 2, not is_paused))
    rates = np.log10([one[0]["lr0"] for one in known])
    assert np.abs(rates[-15:] + 3).mean() < 0.6 * np.abs(rates[:10] + 3).mean()
    assert sum(len(one[0]["freeze"]) == 1 for one in known[-15:]) >= 12
    again = suggested_trial(experiment, known, 40)
    assert again == suggested_trial(experiment, known, 40) != suggested_trial(experiment, known, 41)
    assert again.settings["lr0"] == again.varied["lr0"] and 2 <= again.settings["batch_size"] <= 9
    assert [trial.name for trial in planned(experiment)] == [suggested_trial(experiment, [], 0).name]


class StubbornStudy:
    """In Optuna's place: it suggests the first of everything, always."""

    def __init__(self):
        kinds = {name: Mock() for name in ("IntDistribution", "CategoricalDistribution", "FloatDistribution")}
        self.distributions, self.trial, self.logging = Mock(**kinds), Mock(), Mock()
        self.samplers, self.create_study = Mock(), lambda **_: self
        self.add_trial, self.tell = Mock(), Mock()

    def ask(self, spaces):
        return Mock(params={"epochs": 1, "lr0": 0})


@pytest.mark.parametrize("is_there", [False, True])
def test_tpe_tries_nothing_twice(read, monkeypatch, is_there):
    """The same settings would end in the same weights: of seven combinations all come, then none; failed ones, too."""
    if is_there:
        pytest.importorskip("optuna", reason="the extra yolofast[optuna] is not installed")
    else:
        monkeypatch.setitem(sys.modules, "optuna", StubbornStudy())
    text = "base: {cfg: mini}\nsearch: {epochs: {int: [1, 4]}, lr0: [0.01, 0.02]}\n"
    experiment = read(f"{text}constraints: [epochs * lr0 < 0.07]\nmethod: tpe\nbudget: {{trials: 20}}\n")
    known: list = []
    while trial := suggested_trial(experiment, known, len(known)):
        epochs = trial.varied["epochs"]
        assert trial.varied not in [one for one, *_ in known]
        known.append((trial.varied, -math.inf if epochs == 3 else float(epochs), epochs, True))
    assert len(known) == 7


@pytest.mark.parametrize(
    ("typed", "message"), [("data: shpaes", "did you mean 'shapes'"), ("weights: gone.pt", "there is no such file")]
)
def test_files_that_no_trial_would_find_are_refused_before_one_starts(tmp_path, monkeypatch, capsys, typed, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(f"base: {{cfg: mini, {typed}}}\ngrid: {{lr0: [0.01, 0.02]}}\n")
    for words in (["sweep", "small.yaml"], ["sweep", "small.yaml", "--dry-run"]):
        assert main(words) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_generations_and_copies_keep_constraints(read):
    """Whatever a value is multiplied by, and also where nothing that is drawn would do."""
    text = "base: {cfg: mini, epochs: 4}\nmethod: METHOD\nsearch: {lr0: {uniform: [0.001, 0.02]}}\n"
    text += "constraints: [lr0 <= LIMIT]\n"
    spec = read(text.replace("METHOD", "evolve").replace("LIMIT", "0.0101"))
    (first,) = planned(spec)
    made = [next_generation(spec, [(first, 0.5)], number) for number in range(1, 20)]
    assert {one.settings["lr0"] <= 0.0101 for one in made} == {True} and len({one.settings["lr0"] for one in made}) > 5
    none = read(text.replace("METHOD", "evolve").replace("LIMIT", "0.0005"))
    assert next_generation(none, [(first, 0.5)], 1) is None
    population = read(text.replace("METHOD", "pbt").replace("LIMIT", "0.005"))
    parent, worst = planned(population)[:2]
    copies = [_copy(population, parent, worst, 1, 9, np.random.default_rng(seed)) for seed in range(20)]
    assert max(one.settings["lr0"] for one in copies) <= 0.005
