"""`train --explain`: what would run, with the numbers, without running it; and where belief and run differ."""

import cv2
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from tests.train.two_ranks import small_cfg_file
from yolofast import build_model
from yolofast.cli import main
from yolofast.config.train import TrainConfig
from yolofast.dataset.shapes.made_once import make_shapes
from yolofast.dataset.shapes.outline import NAMES
from yolofast.train.explain.explanation import explain
from yolofast.train.explain.remarks import remarks
from yolofast.train.explain.schedule_picture import _draw_chances, _draw_rates
from yolofast.train.families.family import completed
from yolofast.train.families.yolox import described
from yolofast.train.finetune.freeze_plan import frozen_at_random, plan_of
from yolofast.train.run import prepare_run

WIDE = """
plan:
- {until: 20%, train: [head]}
- {until: 40%, train: [head, neck], lr_factors: {neck: 0.3}}
- {until: 60%, train: [head, neck, dark5], lr_factors: {neck: 0.3, dark5: 0.1}}
- {until: 80%, train: [head, neck, dark4, dark5], lr_factors: {neck: 0.3, dark5: 0.1, dark4: 0.05}}
- {lr: 0.1}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("explain")


@pytest.fixture(scope="module")
def data(folder):
    return str(make_shapes(folder / "shapes", n=24))


def explained(folder, data, **settings):
    hyp = folder / "hyp.yaml"
    hyp.write_text("".join(f"{key}: {value}\n" for key, value in settings.pop("hyp", {}).items()) or "nbs: 64\n")
    base = {"cfg": str(small_cfg_file(folder)), "hyp": str(hyp), "data": data, "device": "cpu", "batch_size": 8}
    return explain(TrainConfig(**(base | settings)), lambda text: None)


def explained_yolox(data, **settings):
    given = {"cfg": "yolox-nano", "data": data, "device": "cpu", "batch_size": 8, "img_size": (64,)} | settings
    return explain(completed(TrainConfig(**given), given), lambda text: None)


@pytest.mark.slow
def test_the_command_prints_and_draws_and_trains_nothing(folder, data, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    words = ["--cfg", "yolox-nano", "--data", data, "--device", "cpu", "--batch-size", "8", "--epochs", "30"]
    assert main(["train", *words, "--plan", "yolox-progressive", "--explain", "schedule.png"]) == 0
    out = capsys.readouterr().out
    assert "24 in 3 batches of 8; 720 in all" in out
    assert "8 images per update; 90 updates in all" in out
    head = sum(p.numel() for p in build_model("yolox-nano", nc=len(NAMES)).head.parameters())
    assert f"{head:,}" in out and "head, neck, dark5" in out
    lines = [line.split() for line in out.splitlines()]
    assert any(line[:2] == ["1", "1"] and line.count("frozen") == 2 for line in lines), "neck and dark5 in epoch 1"
    assert any(line[:2] == ["11", "2"] and line.count("frozen") == 1 for line in lines)
    assert "simota + L1 from epoch" in out and "worth knowing" in out
    assert all(len(line) <= 160 or line.lstrip().startswith("-") for line in out.splitlines())
    picture = cv2.imdecode(np.fromfile(folder / "schedule.png", np.uint8), cv2.IMREAD_COLOR)
    assert picture.shape[0] > 400 and picture.std() > 10
    assert not (folder / "runs").exists()


@pytest.mark.slow
def test_sizes_that_change_are_reported(folder, data, capsys):
    def sizes(*words):
        assert main(["train", "--data", data, "--device", "cpu", "--epochs", "2", *words, "--explain"]) == 0
        return [line.split(maxsplit=2)[2] for line in capsys.readouterr().out.splitlines() if "image sizes" in line]

    assert sizes("--cfg", "yolox-nano") == ["320×320 to 640×640, drawn anew for every 10 batches"]
    assert sizes("--cfg", "yolox-nano", "--set", "multi_scale=false", "--set", "ema=false") == []
    tiny = ("--cfg", str(small_cfg_file(folder)), "--img", "128")
    assert sizes(*tiny, "--multi-scale") == ["64×64 to 192×192, drawn anew for every batch"]
    assert sizes(*tiny) == []


@pytest.mark.slow
def test_a_picture_that_cannot_be_written(folder, data, capsys):
    where = str(folder / "nowhere" / "schedule.png")
    cfg = str(small_cfg_file(folder))
    assert main(["train", "--cfg", cfg, "--data", data, "--device", "cpu", "--explain", where]) == 2
    assert "the picture could not be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    "settings",
    [{}, {"batch_size": 5}, {"max_steps": 31}, {"faithful": True, "epochs": 20}, {"hyp": {"warmup_epochs": 0}}],
)
def test_updates_are_those_of_the_loop(folder, data, settings):
    run = explained(folder, data, **settings)
    updates, iteration = 0, 0
    for epoch in range(run.config.epochs):
        for batch in range(run.batches):
            if run.config.max_steps is None or iteration < run.config.max_steps:
                updates += iteration % run.schedule.at(epoch, batch).accumulate == 0
            iteration += 1
    assert run.updates == updates
    assert run.images_seen == (31 * 8 if run.config.max_steps else run.config.epochs * 24)


def test_shares_of_images_over_the_epochs(folder, data):
    hyp = {"mosaic": 0.5, "mixup": 0.2, "fliplr": 0.5}
    run = explained(folder, data, epochs=6, close_mosaic=2, hyp=hyp)
    assert [row.chances["mosaic"] for row in run.rows] == [0.5] * 4 + [0] * 2
    assert [row.chances["mixup"] for row in run.rows] == [0.1] * 4 + [0] * 2, "only mosaics are blended"
    assert {row.chances["fliplr"] for row in run.rows} == {0.5}
    assert "mixup: only mosaics are blended, so 0.2 means 10.0% of the images" in remarks(run)


@pytest.mark.parametrize(
    ("settings", "remark"),
    [
        ({"faithful": True, "epochs": 400}, "warm-up: 1,000 iterations (333.3 epochs) instead of 9 (3 epochs)"),
        ({"faithful": True, "epochs": 9}, "warm-up: 1,000 of 27 iterations; the learning rate never gets beyond"),
        ({"epochs": 100}, "warm-up: 60 iterations (20.0 epochs) instead of 9 (3 epochs): at least a fifth"),
        ({}, "warm-up: biases start at 0.1 and come down to 0.01"),
        ({"batch_size": 24}, "update: 3 batches of 24 make 72 images, not the nominal 64"),
        ({"batch_size": 24}, "weight decay: 0.0005 runs as 0.0005625"),
        ({"batch_size": 128}, "it is not scaled with the batch (--auto-lr does)"),
        ({"batch_size": 128}, "batch: there are 24 images, fewer than a batch of 128"),
        ({}, "mosaic: it never closes"),
        ({"epochs": 6, "hyp": {"nbs": 8}}, "length: weights move 18 times in all, which is little: more epochs"),
        ({"epochs": 6, "hyp": {"nbs": 8}}, "or fewer images per update (--batch-size)"),
        ({"epochs": 6}, "or fewer images per update (nbs in --hyp)"),
        ({"rect": True}, "mosaic: --rect makes none"),
        ({}, "average: its decay rises over some 6,000 updates and the run has"),
        ({"epochs": 10}, "learning rate: lr0 × lrf = 0.001 is never reached, the last epoch has 0.00122"),
        ({"optimizer": "adamw"}, "adamw wants about a tenth of it"),
        ({"freeze": ("backbone",), "faithful": True}, "BatchNorm statistics of frozen layers drift"),
        ({"max_steps": 31}, "length: --max-steps ends the run in epoch 11 of 100"),
    ],
)
def test_remarks(folder, data, settings, remark):
    assert any(remark in text for text in remarks(explained(folder, data, **settings)))


def test_no_remark_without_a_reason(folder, data):
    hyp = {"mosaic": 0, "mixup": 0, "warmup_epochs": 0, "lrf": 1.0}
    run = explained(folder, data, batch_size=8, epochs=100, hyp={**hyp, "nbs": 8, "weight_decay": 0.0})
    assert [text.split(":")[0] for text in remarks(run)] == ["average"]  # 300 updates are few


@pytest.mark.slow
def test_remarks_on_plans(folder, data):
    plan = folder / "plan.yaml"
    plan.write_text("plan: [{until: 2, train: [head]}, {until: 5}, {until: 90}]")
    found = remarks(explained(folder, data, plan=str(plan), epochs=4, hyp={"warmup_epochs": 0}))
    assert any("1 of its phases gets no epoch in a run of 4" in text for text in found)
    assert any("phase 2 thaws layers at" in text for text in found)
    found = remarks(explained(folder, data, plan=str(plan), epochs=100))
    assert any("its last phase continues for 10 epochs more" in text for text in found)
    plan.write_text("plan: [{until: 2, train: [head]}, {lr: 0.1}]")
    assert not any("thaws" in text for text in remarks(explained(folder, data, plan=str(plan))))


def test_remarks_on_yolox(data):
    run = explained_yolox(data, epochs=30)
    found = remarks(run)
    assert any("learning rate: 0.00125 = basic_lr_per_img 0.0001563 × batch 8" in text for text in found)
    assert any("recipe: no_aug_epochs 15 runs as" in text for text in found)
    closes = run.rules.recipe.closes_at
    assert any(f"it closes and L1 starts with epoch {closes + 1}, one earlier" in text for text in found)
    assert [row.loss for row in run.rows[closes - 1 : closes + 1]] == ["simota", "simota + L1"]
    assert [row.chances["mosaic"] > 0 for row in run.rows[closes - 1 : closes + 1]] == [True, False]


@pytest.mark.slow
def test_a_fine_tuning_recipe_without_weights_is_reported(data):
    """Runs that were taken for fine-tuning have begun with random values, at a sixteenth of the learning rate."""
    tuned = explained_yolox(data, epochs=30, recipe_values=("basic_lr_per_img=9.375e-6",))
    assert any("weights: none are given" in text and "at 1/16.7 of" in text for text in remarks(tuned))
    assert not any("weights:" in text for text in remarks(explained_yolox(data, epochs=30)))


@pytest.mark.slow
def test_weights_that_learn_on_at_full_speed_are_reported(folder, data):
    weights = str(folder / "nano.pt")
    torch.save({"model": build_model("yolox-nano", nc=len(NAMES)).state_dict()}, weights)
    fast = remarks(explained_yolox(data, weights=weights))
    assert any("weights: they learn on at" in text and "basic_lr_per_img=1.56e-05" in text for text in fast)
    slow = remarks(explained_yolox(data, weights=weights, recipe_values=("basic_lr_per_img=1.56e-05",)))
    assert not any("weights:" in text for text in slow)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "fix"),
    [
        (("no_aug_epochs=0",), "--set no_aug_epochs=N"),
        (("close_mosaic=false",), "--set close_mosaic=true"),
        (("close_mosaic=false", "no_aug_epochs=0"), "--set close_mosaic=true no_aug_epochs=N"),
    ],
)
def test_what_would_close_mosaic_really_would(data, values, fix):
    reported = remarks(explained_yolox(data, epochs=300, recipe_values=values))
    assert any(f"({fix} would close it)" in text for text in reported)
    helped = explained_yolox(data, epochs=300, recipe_values=(*values, *fix.replace("N", "3").split()[1:]))
    assert not any("never closes" in text for text in remarks(helped))


@pytest.mark.slow
def test_a_recipe_made_for_another_network_is_reported(data, folder):
    reported = "recipe: nuscenes-clean-v2 is made for yolox-l, this run trains yolox-nano"
    assert reported in remarks(explained_yolox(data, recipe="nuscenes-clean-v2"))
    (folder / "own.yaml").write_text("mosaic_prob: 0.5\n")
    for recipe in ("", "yolox-nano", str(folder / "own.yaml")):
        assert not any("made for" in text for text in remarks(explained_yolox(data, recipe=recipe)))


@pytest.mark.slow
def test_the_recipes_for_nuscenes_train_the_head_alone(folder, capsys):
    """What defined those runs: backbone and neck were frozen, also where all four did little else alike."""
    data = make_shapes(folder / "seven", n=24)
    for labels in (folder / "seven" / "labels").rglob("*.txt"):
        labels.write_text("".join(f"{int(line[0]) % 7}{line[1:]}\n" for line in labels.read_text().splitlines()))
    data.write_text("path: .\ntrain: images/train\nval: images/val\nnc: 7\nnames: [a, b, c, d, e, f, g]\n")
    assert main(["train", "--recipe", "nuscenes-stable-v3", "--data", str(data), "--device", "cpu", "--explain"]) == 0
    out = capsys.readouterr().out
    (phase,) = [" ".join(line.split()) for line in out.splitlines() if "7,553,572" in line]
    assert phase == "1 1-30 all but backbone, neck 7,553,572 13.9% head ×1 of what is frozen"
    assert "freeze: 46,599,040 frozen parameters keep the random values they start with: give --weights" in out
    model = build_model("yolox-l", nc=7)
    for name in ("clean-v2", "original", "smooth-v2", "stable-v3"):
        given = {"recipe": f"nuscenes-{name}"}
        (only,) = plan_of(completed(TrainConfig(**given), given), model).phases
        assert only.trainable(model) == 7_553_572 and {model.layers[n].part for n in only.learning} == {"head"}
        assert {model.layers[n].part for n in only.statistics_frozen_until} == {"backbone", "neck"}


@pytest.mark.slow
def test_a_run_tells_it_at_its_beginning(data):
    given = {"cfg": "yolox-nano", "recipe": "yolox-s", "data": data, "device": "cpu", "img_size": (64,)}
    said = []
    prepare_run(completed(TrainConfig(**given), given), said.append)
    assert "recipe: yolox-s is made for yolox-s, this run trains yolox-nano" in said


@pytest.mark.slow
def test_the_picture_shows_a_warm_up_as_it_bends(data):
    """And both of two shares that are equal, of which one would hide the other."""
    run = explained_yolox(data, epochs=10, batch_size=2)
    figure = Figure()
    rates, chances = figure.subplots(1, 2)
    _draw_rates(rates, run)
    x, y = rates.lines[0].get_data()
    half, end = (y[np.flatnonzero(x == place / run.batches)[0]] for place in (run.batches // 2 - 1, run.batches - 1))
    assert run.rules.recipe.warmup_epochs == 1 and half == pytest.approx(end / 4)
    _draw_chances(chances, run)
    widths = {patch.get_label(): patch.get_linewidth() for patch in chances.patches}
    assert run.rows[0].chances["mosaic"] == run.rows[0].chances["fliplr"] and widths["mosaic"] > widths["fliplr"]
    assert [text.get_text() for text in chances.texts] == ["simota + L1 →"]


@pytest.mark.slow
def test_what_is_the_same_in_all_epochs_is_no_column(folder, data, capsys):
    words = ["--data", data, "--device", "cpu", "--batch-size", "8", "--epochs", "6", "--explain"]
    assert main(["train", "--cfg", "yolox-nano", *words]) == 0
    out = capsys.readouterr().out
    (heading,) = [line for line in out.splitlines() if line.split()[:1] == ["epoch"]]
    assert heading.split() == ["epoch", "phase", "lr", "everything", "mosaic", "loss"] and "sgd, momentum 0.9" in out
    assert main(["train", "--cfg", str(small_cfg_file(folder)), *words]) == 0
    (heading,) = [line for line in capsys.readouterr().out.splitlines() if line.split()[:1] == ["epoch"]]
    assert "momentum  images per update  updates" in heading


@pytest.mark.slow
@pytest.mark.parametrize("family", ["yolox", "yolov7"])
def test_a_long_run_shows_where_its_warm_ups_end(folder, data, capsys, family):
    (folder / "again.yaml").write_text("plan: [{until: 100, warmup_epochs: 7}, {lr: 0.5, warmup_epochs: 2.5}]")
    cfg = "yolox-nano" if family == "yolox" else str(small_cfg_file(folder))
    words = ["--cfg", cfg, "--data", data, "--device", "cpu", "--batch-size", "8", "--epochs", "300", "--fixed"]
    assert main(["train", *words, "--plan", str(folder / "again.yaml"), "--explain"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    shown = {int(line[0]) for line in lines if len(line) > 3 and line[0].isdigit() and line[1] in "12"}
    # YOLOv7 warms up for at least a fifth of the run where that is shorter than 1,000 iterations: 60 epochs.
    end = 7 if family == "yolox" else 60
    assert {1, end, end + 1, 100, 101, 103, 104, 300} <= shown and len(shown) < 40


def test_scopes_are_named_as_the_plan_would_name_them(folder, data):
    plan = folder / "plan.yaml"
    plan.write_text("plan: [{until: 2, train: [head]}, {train: [dark4, dark5, neck, head], lr_factors: {dark4: 0.1}}]")
    run = explained_yolox(data, plan=str(plan))
    assert [scope.name for scope in run.scopes] == ["head", "neck+dark5", "dark4"]
    assert set(run.rows[0].lr) == {"head"}
    last = run.rows[5].lr
    assert last["dark4"].last == pytest.approx(0.1 * last["head"].last)


def test_what_is_frozen_at_random_is_reported(folder, data):
    run = explained(folder, data, freeze=("backbone",))
    assert any("frozen parameters keep the random values they start with" in text for text in remarks(run))
    assert not any("random" in text for text in remarks(explained(folder, data)))
    assert frozen_at_random(run.plan, run.model, frozenset()) is None


def nano_weights(folder):
    torch.save({"model": build_model("yolox-nano", nc=80).state_dict()}, folder / "nano.pth")
    return str(folder / "nano.pth")


@pytest.mark.slow
def test_weights_of_another_size_leave_what_is_frozen_at_random(folder, data):
    """A few tensors fit by chance, in the trunk only counters: no fine-tuning, no reason for a tenth of the rate."""
    weights = nano_weights(folder)
    partly = {"cfg": "yolox-s", "weights": weights, "transfer_weights": True}
    run = explained_yolox(data, **partly, plan="yolox-progressive", epochs=12)
    assert 0 < len(run.anew) < len(list(run.model.parameters()))
    trunk = sum(p.numel() for name, p in run.model.named_parameters() if name.startswith("backbone."))  # the neck too
    (reported,) = [text for text in remarks(run) if text.startswith("freeze:")]
    assert f"freeze: {trunk:,} frozen parameters keep the random values" in reported
    assert not any(text.startswith("weights:") for text in remarks(run))
    fine = explained_yolox(data, **partly, recipe_values=("basic_lr_per_img=2e-5",))
    assert any("weights: most of the network is not in them" in text for text in remarks(fine))


@pytest.mark.slow
def test_class_predictions_that_are_frozen_before_they_learnt_are_reported(folder, data):
    """The run says it too. Everything else is in the weights."""
    weights = nano_weights(folder)
    run = explained_yolox(data, weights=weights, freeze=("head",))
    fresh = sum(p.numel() for p in run.model.head.cls_preds.parameters())
    head = sum(p.numel() for p in run.model.head.parameters())
    (reported,) = [text for text in remarks(run) if text.startswith("freeze:")]
    assert f"{fresh:,} of {head:,} frozen parameters" in reported and "(head.cls_preds.0.weight …)" in reported
    assert any("they learn on at the learning rate that is published for random values" in t for t in remarks(run))
    said = []
    prepare_run(run.config, said.append).close()
    assert reported.replace("freeze:", "warning:") in said
    known = explained_yolox(data, weights=weights, freeze=("backbone", "neck"))
    assert not any(text.startswith("freeze:") for text in remarks(known))


@pytest.mark.slow
def test_numbers_are_not_cut_in_a_file(folder, data, capsys):
    """Five parts of the network have a column each."""
    (folder / "wide.yaml").write_text(WIDE)
    words = ["--cfg", "yolox-nano", "--data", data, "--device", "cpu", "--batch-size", "8", "--epochs", "10"]
    assert main(["train", *words, "--plan", str(folder / "wide.yaml"), "--explain"]) == 0
    out = capsys.readouterr().out
    assert "…" not in out and "→" in out and max(map(len, out.splitlines())) > 120
    everything = next(line for line in out.splitlines() if "9-10" in line)
    assert everything.rstrip().endswith("none"), "nothing is frozen, whatever has no parameters"


def test_a_warm_up_of_the_plan_is_the_one_that_is_reported(folder, data):
    (folder / "slow.yaml").write_text("plan: [{until: 5, train: [head], warmup_epochs: 3}, {lr: 0.1}]")
    run = explained_yolox(data, epochs=10, plan=str(folder / "slow.yaml"), weights="")
    reported = remarks(run)
    assert "recipe: warmup_epochs 5 runs as 3, which the plan says" in reported
    assert not any("warmup_epochs 5 runs as 1" in text for text in reported)
    assert "3 of warm-up" in described(run.config, run.rules.recipe, run.plan)
    (floor,) = {rate.last for rate in run.rows[-1].lr.values()}
    assert any(f"stays at {floor:.3g} from" in text for text in reported), "times what the plan says"


def test_a_warm_up_that_does_not_end_is_reported(folder, data):
    (folder / "slower.yaml").write_text("plan: [{warmup_epochs: 20}]")
    reported = remarks(explained_yolox(data, epochs=10, plan=str(folder / "slower.yaml")))
    assert "warm-up: 20 epochs, the run has 10: it never gets beyond 25% of 0.00125" in reported
    assert not any("cosine" in text for text in reported), "there is none"


def test_the_lowest_rate_is_that_of_the_plan(folder, data):
    (folder / "low.yaml").write_text("plan: [{until: 5}, {lr: 0.1}]")
    run = explained(folder, data, epochs=10, plan=str(folder / "low.yaml"))
    assert any(
        "lr0 × lrf × 0.1 of the plan = 0.0001 is never reached, the last epoch has 0.000122" in t for t in remarks(run)
    )


def test_a_phase_that_is_over_before_its_warm_up(folder, data):
    plan = folder / "slow.yaml"
    plan.write_text("plan: [{until: 2, train: [head]}, {train: [head, neck], warmup_epochs: 20}]\n")
    found = remarks(explained_yolox(data, plan=str(plan), epochs=6))
    assert any("phase 2 warms up for 20 epochs and has 4" in text and "0.2 of the" in text for text in found)
