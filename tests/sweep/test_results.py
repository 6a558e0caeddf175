"""What a sweep says of its trials, from made-up run folders."""

import json
import re
from pathlib import Path

import pytest

from yolofast.cli import main
from yolofast.config.reports import SweepConfig
from yolofast.errors import UserError
from yolofast.pages.elements import LineChart
from yolofast.sweep.experiment import KEYS, read_experiment
from yolofast.sweep.folder import SweepFolder
from yolofast.sweep.page import page_of
from yolofast.sweep.results import results_of
from yolofast.sweep.session import open_sweep, write_results
from yolofast.sweep.trials import planned

FOUR = "base: {cfg: mini, epochs: 2}\ngrid: {lr0: [0.01, 0.02], assigner: [ota, anchor]}\n"
SCORES = [(0.1, 0.2), (0.3,), (0.5, 0.4), ()]


@pytest.fixture
def swept(tmp_path):
    """Of four trials one is paused and one has not begun; an epoch takes an hour for OTA, half of one else."""
    file = tmp_path / "four.yaml"
    file.write_text(f"{FOUR}price: 2\n")
    experiment = read_experiment(file)
    sweep = SweepFolder.new(tmp_path / "runs" / "four", experiment, planned(experiment))
    for trial, scores in zip(sweep.trials, SCORES, strict=True):
        folder, seconds = sweep.run(trial), 3600 if trial.settings["assigner"] == "ota" else 1800
        folder.mkdir()
        rows = [f"{place},{(place + 1) * seconds},{score}" for place, score in enumerate(scores)]
        if rows:
            (folder / "results.csv").write_text("\n".join(["epoch,time,metrics/mAP50-95(B)", *rows, ""]))
        if len(rows) == 2:
            (folder / "summary.json").write_text(json.dumps({"epochs": 2}))
    return sweep


def test_rows_effects_and_the_front(swept):
    found = results_of(swept)
    assert [row.state for row in found.rows] == ["complete", "paused after 1", "complete", "waits"]
    assert [row.progress.best() for row in found.rows[:3]] == [0.5, 0.3, 0.2]
    assert (found.best.progress.best_epoch, found.best.cost) == (1, 4.0)
    assert "train cfg=mini epochs=2 lr0=0.02 assigner=ota" in found.command.replace("seed=0 ", "")
    assert [row.progress.best() for row in found.front] == [0.5, 0.3], "the third is worse and no faster"
    effects = {(one.setting, one.value): one for one in found.effects()}
    assert set(effects) == {("lr0", "0.01"), ("lr0", "0.02"), ("assigner", "ota"), ("assigner", "anchor")}
    ota = effects["assigner", "ota"]
    assert (ota.count, ota.mean, ota.best) == (2, pytest.approx(0.35), 0.5)
    assert ota.half == pytest.approx(12.706 * 0.15, rel=1e-3), "Student's interval of two values, 0.2 and 0.5"
    assert effects["assigner", "anchor"].half == float("inf")


def test_fitness_is_what_an_evolution_goes_by(tmp_path):
    file = tmp_path / "evolved.yaml"
    file.write_text("base: {cfg: mini, epochs: 2}\nmethod: evolve\n")
    sweep = SweepFolder.new(tmp_path / "evolved", *[one := read_experiment(file), planned(one)])
    (trial,) = sweep.trials
    sweep.run(trial).mkdir()
    text = "epoch,time,metrics/mAP50(B),metrics/mAP50-95(B)\n0,60,0.9,0.2\n1,120,0.4,0.25\n"
    (sweep.run(trial) / "results.csv").write_text(text)
    progress = sweep.progress(trial)
    assert progress.values == pytest.approx((0.27, 0.265)) and progress.best_epoch == 1, "by mAP it is the second"


def test_trials_that_share_a_device_share_its_price(swept):
    swept.per_device = 2
    swept.save()
    found = results_of(SweepFolder.open(swept.path))
    assert [row.cost for row in found.rows] == [2.0, 0.5, 2.0, 0.0] and found.rows[0].progress.hours == 2


def test_of_a_loss_the_lowest_is_the_best(tmp_path):
    file = tmp_path / "two.yaml"
    file.write_text("base: {cfg: mini, epochs: 2}\ngrid: {lr0: [0.01, 0.02]}\nseeds: 2\nmetric: val/box_loss\n")
    experiment = read_experiment(file)
    sweep = SweepFolder.new(tmp_path / "two", experiment, planned(experiment))
    for trial, loss in zip(sweep.trials, (3, 4, 1, 2), strict=True):
        sweep.run(trial).mkdir()
        (sweep.run(trial) / "results.csv").write_text(f"epoch,time,val/box_loss\n0,60,{loss}\n")
    found = results_of(sweep)
    assert [row.progress.best() for row in found.rows] == [1, 2, 3, 4]
    assert [(one.value, one.mean, one.best) for one in found.effects() if one.setting == "lr0"] == [
        ("0.01", 3.5, 3), ("0.02", 1.5, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(("metric", "factor"), [("hours_to", 1), ("money_to", 2)])
def test_how_soon_a_trial_is_accurate_enough(tmp_path, metric, factor):
    """Of an hour an epoch: the first gets there in two, the second never but nearly, the third not at all."""
    file = tmp_path / "three.yaml"
    file.write_text(f"base: {{cfg: mini, epochs: 3}}\nseeds: 3\nprice: 2\nmetric: {{{metric}: 0.3}}\n")
    sweep = SweepFolder.new(tmp_path / "three", *[one := read_experiment(file), planned(one)])
    for trial, scores in zip(sweep.trials, [(0.1, 0.2, 0.29), (0.1, 0.3, 0.2), (0.1, 0.1, 0.1)], strict=True):
        sweep.run(trial).mkdir()
        rows = "".join(f"{place},{3600 * (place + 1)},{score}\n" for place, score in enumerate(scores))
        (sweep.run(trial) / "results.csv").write_text(f"epoch,time,metrics/mAP50-95(B)\n{rows}")
    found = write_results(sweep)
    assert [row.trial.settings["seed"] for row in found.rows] == [1, 0, 2]
    first = found.best.progress
    assert (first.best(), first.best_epoch, first.lower_is_better) == (2 * factor, 2, True)
    assert [row.as_json()["best"] for row in found.rows] == [2 * factor, None, None]
    assert first.worth(1) == found.rows[1].progress.worth(1) == found.rows[2].progress.worth(1), "after one epoch"
    assert {row.trial.settings["seed"] for row in found.front} == {1}, "by accuracy and hours, which are equal"
    assert f"{metric.split('_')[0]} to map 0.3" in (sweep.path / "sweep.html").read_text()


def test_words_are_on_the_axes_of_the_page(swept):
    charts = [
        one for section in page_of(results_of(swept)).sections for one in section.elements if isinstance(one, LineChart)
    ]
    names = {chart.title: chart.x_names for chart in charts}
    assert names["map over assigner"] == ("anchor", "ota") or names["map over assigner"] == ("ota", "anchor")
    assert names["map over lr0"] == () and names["Trials across their settings"] == ("lr0", "assigner", "map")


def test_a_trial_that_failed_is_no_result(swept):
    """Its settings may not be those that it says."""
    first = results_of(swept).best.trial
    value = first.varied["lr0"]
    count = next(one.count for one in results_of(swept).effects() if (one.setting, one.number) == ("lr0", value))
    next(one for one in swept.trials if one.name == first.name).problem = "its settings did not take effect"
    found = results_of(swept)
    assert found.best.trial.name != first.name not in [row.trial.name for row in found.front]
    counts = {one.number: one.count for one in found.effects() if one.setting == "lr0"}
    assert counts.get(value, 0) == count - 1
    for one in swept.trials:
        one.problem = "failed"
    assert results_of(swept).best is None and write_results(swept).command == ""
    assert "failed: failed" in (swept.path / "sweep.html").read_text(), "the page says why it has no best"


def test_a_trial_has_its_number_in_the_table(swept):
    """Its name has all its settings, which have columns there: it would leave them no room."""
    (table,) = (section.elements[0] for section in page_of(results_of(swept)).sections if section.title == "Trials")
    assert [row[0] for row in table.rows] == [row.trial.name[:3] for row in results_of(swept).rows]


def test_page_json_and_data_frame_say_the_same(swept):
    found = write_results(swept)
    page = (swept.path / "sweep.html").read_text().replace("<wbr>", "")
    said = json.loads((swept.path / "sweep.json").read_text())
    assert (
        all(row.trial.name in page for row in found.rows if row.progress.epochs)
        and "the line is the Pareto front" in page
    )
    assert [one["name"] for one in said["trials"]] == [row.trial.name for row in found.rows]
    assert said["best_command"] == found.command and len(said["effects"]) == 4
    frame = found.to_pandas()
    assert list(frame["best"][:3]) == [0.5, 0.3, 0.2] and list(frame["cost"]) == [4.0, 1.0, 4.0, 0.0]


def test_a_resumed_sweep_may_get_more_trials_but_no_others(swept):
    file = swept.path / "experiment.yaml"
    file.write_text(FOUR.replace("[0.01, 0.02]", "[0.01, 0.02, 0.03]"))
    config = SweepConfig(experiment=str(swept.path), resume=True)
    assert len(open_sweep(config).trials) == 6
    file.write_text(FOUR.replace("epochs: 2", "epochs: 3"))
    with pytest.raises(UserError, match="the experiment has changed: 000"):
        open_sweep(config)


def test_a_damaged_list_of_trials_is_told(swept):
    for text in ("{", "[]", '{"trials": [{"name": 1}]}'):
        (swept.path / "trials.json").write_text(text)
        with pytest.raises(UserError, match=r"trials\.json: cannot be read"):
            SweepFolder.open(swept.path)


def test_a_dry_run_lists_what_differs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", "batch-and-lr", "data=data/shapes.yaml", "epochs=30", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "11 trials:" in out and "lr0=0.02" in out and "epochs=30" in out and "runs pause after epochs 10, 20" in out
    assert main(["sweep", "tracker-thresholds", "detections=d", "truth=t", "--dry-run"]) == 0
    assert "--set conf=0.1,0.3,0.5 track_thresh=0.4,0.5,0.6 match_thresh" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_the_file_of_the_page(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "sweep.md").read_text(encoding="utf-8")
    text, tracked, population = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "small.yaml").write_text(text)
    experiment = read_experiment(tmp_path / "small.yaml")
    assert len(planned(experiment)) == 4 and experiment.stopping.rungs == (1,)
    (tmp_path / "tracked.yaml").write_text(tracked)
    assert read_experiment(tmp_path / "tracked.yaml").metric.score == "IDF1"
    (tmp_path / "population.yaml").write_text(population)
    assert len(planned(read_experiment(tmp_path / "population.yaml"))) == 6
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) >= KEYS.keys() - {"command"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sweep"], "no experiment is named"),
        (["sweep", "--resume"], "there is no sweep to resume"),
        (["sweep", "bathc-and-lr"], "did you mean 'batch-and-lr'"),
        (["sweep", "batch-and-lr", "--resume", "epochs=3"], "--set changes an experiment that is begun"),
        (["sweep", "batch-and-lr", "--device", "7"], "this machine has"),
    ],
)
def test_commands_that_are_refused(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert message in capsys.readouterr().err
