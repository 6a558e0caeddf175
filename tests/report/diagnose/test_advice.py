"""Advice has numbers, and they come true when it is followed."""

import dataclasses

import numpy as np
import pytest

from tests.report.diagnose import planted
from yolofast.report.diagnose.diagnosis import as_json, diagnose
from yolofast.report.diagnose.ship import choose_epoch
from yolofast.report.diagnose.statistics import noise_near
from yolofast.report.logs.history import RUN_FOLDER, YOLOX_LOG, Batches, Epochs, History
from yolofast.report.logs.read_run import read_history


def changes(found):
    return {change.key: (change.before, change.after) for change in found.advice.changes}


@pytest.mark.slow
def test_the_calm_that_was_forecast_comes():
    before = diagnose(planted.data_mix(np.random.default_rng(0)))
    proposed = changes(before)
    mosaic, mixup = proposed["mosaic"][1], proposed.get("mixup", (0, planted.MIXUP))[1]
    after = diagnose(planted.data_mix(np.random.default_rng(1), mosaic=mosaic, mixup=mixup))
    (line,) = before.advice.lines
    cut = 1 - after.around.std / before.around.std
    forecast = float(line.split("standard deviation by ")[1].split("%")[0]) / 100
    assert forecast == pytest.approx(cut, abs=0.03) and forecast >= 0.1
    assert f"from {planted.MOSAIC:g} to {mosaic:g}" in line


def test_mosaics_that_bring_boxes_count_for_them():
    """The loss follows the boxes alone, but those come with the mosaics: fewer of them help."""
    history = planted.made_up(
        np.random.default_rng(0), planted.learns, factor=lambda c: 1 + 0.002 * c["boxes"], more_boxes=4
    )
    assert changes(diagnose(history))["mosaic"][0] == planted.MOSAIC


def test_where_every_image_is_a_mosaic_only_mixups_are_advised_against():
    """Of the loss without mosaics nothing was seen."""
    history = planted.made_up(
        np.random.default_rng(0), planted.learns, factor=lambda c: 1 + 0.5 * c["mixup"], mosaic=1.0, more_boxes=0
    )
    history.settings["mosaic"] = 1.0
    found = diagnose(history)
    assert set(changes(found)) == {"mixup"} and "how many mixups a batch holds" in found.verdicts[0].text
    assert "Lowering mixup from 0.4 to" in found.advice.lines[0] and "mosaic" not in found.advice.lines[0]


def test_epochs_without_mosaics_do_not_change_the_forecast():
    """Closing them is no spread of their share."""
    open_all_the_time = planted.data_mix(np.random.default_rng(0))
    batches = open_all_the_time.batches
    is_closed = batches.epoch > planted.EPOCHS - 4
    shares = {name: np.where(is_closed, 0, batches.contents[name]) for name in ("mosaic", "mixup")}
    closing = dataclasses.replace(batches, contents={**batches.contents, **shares})
    found = diagnose(dataclasses.replace(open_all_the_time, batches=closing))
    assert "mosaic closed" in found.phases[-1].phase.starts_with
    assert changes(found) == changes(diagnose(open_all_the_time))


def test_settings_have_the_names_of_the_run():
    history = planted.lr_too_high(np.random.default_rng(0))
    assert changes(diagnose(history)) == {"lr0": (0.01, 0.005)}
    history.settings.clear()
    history.settings["basic_lr_per_img"] = 0.0002
    assert changes(diagnose(history)) == {"basic_lr_per_img": (0.0002, 0.0001)}
    history.settings.clear()
    assert changes(diagnose(history)) == {"lr0": (None, "0.5 of it")}


def test_overfitting_ends_the_run_earlier():
    found = diagnose(planted.overfit(np.random.default_rng(0)))
    before, after = changes(found)["epochs"]
    assert before == planted.EPOCHS and 15 <= after <= 21


def test_no_advice_ends_a_run_before_the_epoch_to_ship():
    for plant in (planted.overfit_but_scores_rise, planted.plateau):
        found = diagnose(plant(np.random.default_rng(0)))
        assert found.choice.epoch > 30 and not changes(found)
        assert f"epoch {found.choice.epoch}" in found.advice.lines[0]
        assert "stop" not in found.advice.lines[0]


def test_a_score_that_is_best_a_little_later_moves_the_end():
    late = lambda s: 0.3 - (s - 0.5) ** 2  # noqa: E731
    found = diagnose(planted.overfit(np.random.default_rng(0), score=late))
    assert (
        changes(found)["epochs"][1] >= found.choice.epoch
        and f"stop at epoch {found.choice.epoch}" in (found.advice.lines[0])
    )


def test_the_calm_of_one_size_comes():
    before = diagnose(planted.image_sizes(np.random.default_rng(0), "bend", 10))
    after = diagnose(planted.made_up(np.random.default_rng(1), planted.learns, noise=0.04))
    (line,) = before.advice.lines
    forecast = float(line.split("would be ")[1].split("%")[0]) / 100
    assert forecast == pytest.approx(after.around.std, rel=0.05)
    assert f"instead of {before.around.std:.2%}" in line
    assert changes(before) == {"multi_scale": (True, False)}
    yolox = dataclasses.replace(before.history, format=YOLOX_LOG, settings={"multiscale_range": 5})
    assert changes(diagnose(yolox)) == {"multiscale_range": (5, 0)}


def test_text_and_settings_say_the_same_numbers():
    history = planted.data_mix(np.random.default_rng(2))
    found = diagnose(history)
    for key, (before, after) in changes(found).items():
        assert before == history.settings[key] and f"{key} from {before:g} to {after:g}" in found.advice.lines[0]


def test_noise_is_no_fault_and_a_larger_batch_is_calmer():
    history = planted.noise_only(np.random.default_rng(0))
    before = history.settings["batch_size"]
    found = diagnose(history)
    (line,) = found.advice.lines
    assert "no fault" in line and f"For a calmer curve, a batch twice as large ({before} -> {2 * before}) would" in line
    assert changes(found) == {"batch_size": (before, 2 * before)}
    own = dataclasses.replace(history, format=RUN_FOLDER)
    assert as_json(diagnose(own))["flags"] == ["--batch-size", str(2 * before)]
    assert "learning rate doubles" not in line
    yolox = dataclasses.replace(own, settings={"basic_lr_per_img": 0.0002, "batch_size": before})
    assert diagnose(yolox).advice.lines[0].endswith("; the learning rate doubles with it")
    measured = dataclasses.replace(own, settings={"batch_size": -1})
    assert not changes(diagnose(measured))


def epochs(fitness, val):
    count = len(fitness)
    unknown = np.full(count, np.nan)
    return Epochs(
        number=np.arange(1, count + 1), train=unknown, val=np.array(val), fitness=np.array(fitness), lr=unknown
    )


def test_the_epoch_to_ship_is_the_best_within_noise():
    fitness = [0.1, 0.2, 0.30, 0.31, 0.305, 0.312, 0.306, 0.29]
    val = [9.0, 8.0, 5.0, 4.0, 4.1, 4.5, 4.6, 4.7]
    choice = choose_epoch(epochs(fitness, val))
    assert choice.best == 6 and choice.epoch == 4 and set(choice.as_good) >= {4, 6} and 2 not in choice.as_good
    assert "lowest validation loss" in choice.criterion


def assigners(history, last, first="anchor", begins=7):
    """The same run, with another assigner from that epoch on."""
    names = tuple(last if epoch >= begins else first for epoch in history.epochs.number.tolist())
    one = np.ones(len(names))
    batches = Batches(epoch=history.epochs.number, loss=one, lr=one, assigner=names)
    return dataclasses.replace(history, batches=batches)


def test_scores_of_another_assigner_count_and_its_validation_losses_do_not():
    fitness = [0.1, 0.2, 0.30, 0.31, 0.305, 0.31, 0.306, 0.312, 0.311, 0.29]
    val = [9.0, 8.0, 5.0, 4.0, 4.1, 4.5, 7.6, 7.5, 7.2, 7.3]  # the assigner of the last four costs more
    run = History(source="a", format="b", epochs=epochs(fitness, val))
    assert choose_epoch(run.comparable).epoch == 4, "with one assigner"
    choice = choose_epoch(assigners(run, "ota").comparable)
    assert choice.best == 8 and {4, 6, 8, 9} <= set(choice.as_good), "scores can be compared"
    assert choice.epoch == 9 and choice.by_loss == (8, 9), "losses only among those of the last assigner"
    early = [0.1, 0.2, 0.30, 0.31, 0.305, 0.33, 0.306, 0.328, 0.327, 0.29]
    choice = choose_epoch(assigners(dataclasses.replace(run, epochs=epochs(early, val)), "ota").comparable)
    assert choice.epoch == choice.best == 6 and not choice.by_loss, "the best one has no loss to compare"


def test_training_losses_of_another_assigner_are_not_compared():
    train = np.array([3.0, 2.0, 1.0, 7.0, 6.0, 6.5])
    unknown = np.full(6, np.nan)
    known = Epochs(number=np.arange(1, 7), train=train, val=unknown, fitness=unknown, lr=unknown)
    run = History(source="a", format="b", epochs=known)
    assert choose_epoch(run.comparable).epoch == 3
    assert choose_epoch(assigners(run, "ota", begins=4).comparable).epoch == 5


def test_published_validation_has_one_assigner_throughout():
    run = History(source="a", format="b", epochs=epochs([0.1] * 8, [3.0, 1.0] + [2.0] * 6), same_loss=False)
    assert choose_epoch(assigners(run, "ota").comparable).epoch == 2


@pytest.mark.parametrize(
    ("headings", "rows", "criterion"),
    [
        ("mAP50,mAP50-95", ["0.5,0.2", "0.4,0.3"], "highest 0.1 · mAP50 + 0.9 · mAP50-95"),
        ("mAP50-95", ["0.2", "0.3"], "highest mAP50-95"),
        ("metrics/mAP50(B)", ["0.2", "0.3"], "highest metrics/mAP50(B)"),
        ("mAP50,mAP50-95", ["0.2,", "0.3,"], "highest mAP50"),
    ],
)
def test_the_criterion_names_the_scores_there_are(tmp_path, headings, rows, criterion):
    path = tmp_path / "log.csv"
    path.write_text(f"epoch,loss,{headings}\n" + "".join(f"{n},{5 - n},{row}\n" for n, row in enumerate(rows)))
    choice = diagnose(read_history(path)).choice
    assert (choice.epoch, choice.criterion) == (2, criterion)


def test_what_is_learned_is_no_noise():
    rising = [0.2 - 0.1 * 0.8**n for n in range(12)]
    assert choose_epoch(epochs(rising, np.linspace(3, 4, 12))).epoch == 12
    noisy = 0.3 + 0.01 * np.random.default_rng(0).standard_normal(400)
    assert noise_near(noisy, 200, width=200) == pytest.approx(0.01, rel=0.1)


def test_a_run_that_breaks_at_once_begins_anew(tmp_path):
    """There is nothing before its first epoch to continue from."""
    (tmp_path / "log.csv").write_text("epoch,loss\n0,nan\n1,nan\n")
    assert diagnose(read_history(tmp_path / "log.csv")).advice.lines[0].endswith("; begin anew")
    (tmp_path / "log.csv").write_text("epoch,loss\n0,3\n1,nan\n")
    assert diagnose(read_history(tmp_path / "log.csv")).advice.lines[0].endswith("; continue from before epoch 2")


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("log.csv", "{epoch},{i},{loss},0.01"),
        ("log.txt", "Epoch {epoch}, iter {i}/5 - loss: {loss}"),
        ("train_log.txt", "epoch: {epoch}/8, iter: {i}/5, total_loss: {loss}, lr: 1e-3"),
    ],
)
@pytest.mark.parametrize(("first", "is_rate"), [(1, False), (2, True)])
def test_a_loss_that_is_no_number_before_any_update_is_not_the_rate(tmp_path, name, row, first, is_rate):
    """With weights or data that hold none; a line that comes later may be of steps that were too long."""
    rows = [row.format(epoch=epoch, i=i, loss="nan") for epoch in range(1, 9) for i in range(first, 6)]
    (tmp_path / name).write_text("\n".join(["epoch,batch,loss,lr"] * (name == "log.csv") + rows) + "\n")
    advice = diagnose(read_history(tmp_path / name)).advice
    assert ("a third of the learning rate" in advice.lines[0]) == is_rate == bool(advice.changes)
    assert ("weights it starts from" in advice.lines[0]) != is_rate and advice.lines[0].endswith("begin anew")


def test_without_scores_the_validation_loss_decides():
    choice = choose_epoch(epochs([np.nan] * 4, [3.0, 2.0, 2.5, np.nan]))
    assert choice.epoch == 2 and choice.criterion == "lowest validation loss"


def test_a_negative_loss_keeps_its_sign():
    assert choose_epoch(epochs([np.nan] * 3, [-1.0, -2.0, -1.5])).value == -2


def test_a_network_that_finds_nothing_is_not_chosen_by_its_score():
    assert choose_epoch(epochs([0.0] * 3, [3.0, 2.0, 2.5])).epoch == 2
