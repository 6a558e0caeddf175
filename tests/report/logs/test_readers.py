"""Every format is read as it was written, faults are named, and a torn end is forgiven."""

import os

import numpy as np
import pytest

from tests.report.logs.logs import falling, results_txt, train_log
from yolofast.errors import UserError
from yolofast.report.diagnose.diagnosis import diagnose
from yolofast.report.diagnose.phases import find_phases
from yolofast.report.logs.read_run import read_history
from yolofast.report.logs.read_yolox import read_scores

BATCHES = "epoch,batch,total,box,obj,cls,l1,boxes,box_size,gradient_norm,mosaic,mixup,lr,size,trainable,assigner\n"


def test_results_txt(tmp_path):
    train, val, score = falling(30), falling(30, 1), np.linspace(0.1, 0.4, 30)
    path = tmp_path / "results.txt"
    text = results_txt(train, val, score)
    path.write_text(text + text.splitlines()[-1] + "\n      30/29     3.2")  # an epoch repeated, one torn
    (tmp_path / "hyp.yaml").write_text("lr0: 0.01\nmosaic: 1.0\n")
    (tmp_path / "opt.yaml").write_text("batch_size: 64\nepochs: 30\n")
    for place in (path, tmp_path):
        history = read_history(place)
        assert history.epochs.number.tolist() == list(range(1, 31)) and history.batches is None
        np.testing.assert_allclose(history.epochs.train, train, rtol=1e-3)
        np.testing.assert_allclose(history.epochs.val, val, rtol=1e-3)
        np.testing.assert_allclose(history.epochs.fitness, 0.9 * score + 0.1 * 1.5 * score, rtol=1e-3)
        assert history.settings == {"lr0": 0.01, "mosaic": 1.0, "batch_size": 64, "epochs": 30}
        assert not history.same_loss


def test_train_log(tmp_path):
    loss, lr, score = falling(1200), np.linspace(1e-3, 1e-5, 1200), np.linspace(0.1, 0.3, 6)
    path = tmp_path / "train_log.txt"
    text = train_log(loss, lr, 200, l1_from=5, scores=score)
    path.write_text(text.replace("cls_loss: 0.7", "cls_loss:\n0.7", 1))  # as copied from a terminal
    history = read_history(path)
    batches = history.batches
    assert len(batches) == 120 and len(history.epochs) == 6
    np.testing.assert_allclose(batches.loss, loss[9::10], atol=0.0501)
    np.testing.assert_allclose(batches.lr, lr[9::10], rtol=1e-3)
    assert set(batches.contents["size"]) == {640, 672, 704}
    np.testing.assert_allclose(history.epochs.fitness, 0.9 * score + 0.15 * score, atol=1e-3)
    path.write_text("\n".join(line for line in text.splitlines() if "IoU=0.50:0.95" not in line))
    half = read_history(path).epochs
    np.testing.assert_allclose(half.fitness, 1.5 * score, atol=1e-3)
    assert half.score == "mAP50"
    assert [(phase.first, phase.starts_with) for phase in find_phases(history)] == [(1, "start"), (5, "L1 on")]


NO_MOSAIC = "2026-01-02 03:04:05 | INFO     | yolox.core.trainer:208 - --->No mosaic aug now!\n"


def with_mosaic_closed(text, *epochs):
    """As YOLOX says it, after the beginning of an epoch."""
    for epoch in epochs:
        place = text.index("\n", text.index(f"---> start train epoch{epoch}\n")) + 1
        text = text[:place] + NO_MOSAIC + text[place:]
    return text


def phases_of(folder):
    return [(phase.first, phase.starts_with) for phase in find_phases(read_history(folder))]


def test_yolox_says_where_mosaic_closes(tmp_path):
    plain = train_log(np.full(600, 5.0), np.full(600, 1e-3), 100)
    path = tmp_path / "train_log.txt"
    path.write_text(with_mosaic_closed(plain, 5))
    assert phases_of(tmp_path) == [(1, "start"), (5, "mosaic closed")]
    assert not {"mosaic", "mixup"} & set(read_history(path).batches.contents), "no batch says what it holds"
    path.write_text(with_mosaic_closed(plain, 5, 6))  # as where a run continues
    assert phases_of(tmp_path) == [(1, "start"), (5, "mosaic closed")]
    path.write_text(with_mosaic_closed(train_log(np.full(600, 5.0), np.full(600, 1e-3), 100, l1_from=5), 5))
    assert phases_of(tmp_path) == [(1, "start"), (5, "mosaic closed, L1 on")]
    again = plain[plain.index("---> start train epoch3") :]
    path.write_text(with_mosaic_closed(plain, 4) + with_mosaic_closed(again, 6))  # longer than it was to be
    assert phases_of(tmp_path) == [(1, "start"), (6, "mosaic closed")]
    log = with_mosaic_closed(plain, 5)
    path.write_text(log[: log.index(NO_MOSAIC) + len(NO_MOSAIC)] + log[log.index("---> start train epoch3") :])
    assert phases_of(tmp_path) == [(1, "start"), (5, "mosaic closed")], "a kill before its first iteration"
    path.write_text(with_mosaic_closed(plain, 4) + plain)
    assert phases_of(tmp_path) == [(1, "start")], "of an earlier run"


def test_a_resumed_log_counts_the_later_lines(tmp_path):
    first, again = (
        train_log(np.full(300, 9.0), np.full(300, 1e-3), 100),
        train_log(np.full(300, 5.0), np.full(300, 1e-3), 100),
    )
    (tmp_path / "train_log.txt").write_text(first + again[again.index("---> start train epoch3") :])
    history = read_history(tmp_path)
    assert history.epochs.train.tolist() == [9, 9, 5]


@pytest.mark.parametrize("left", [" = ", " = \n", " = 0.", " = 0.2", " = 0.2\n"])
def test_a_score_that_a_kill_has_torn_is_left_out(tmp_path, left):
    """What comes next begins with a date, on the same line or on one of its own."""
    whole = train_log(np.full(300, 5.0), np.full(300, 1e-3), 100, scores=[0.1, 0.2, 0.3])
    torn = whole[: whole.index(" = 0.200")] + left
    resumed = whole[whole.index("epoch: 3/3") - 60 :]
    (tmp_path / "train_log.txt").write_text(torn + resumed[resumed.index("2026") :])
    epochs = read_history(tmp_path).epochs
    np.testing.assert_allclose(epochs.fitness, [0.105, np.nan, 0.315])
    assert read_scores(tmp_path / "train_log.txt")[3] == {"mAP50-95": 0.3, "mAP50": 0.45}
    (tmp_path / "train_log.txt").write_text(torn)
    np.testing.assert_allclose(read_history(tmp_path).epochs.fitness, [0.105, np.nan])


@pytest.mark.slow
def test_a_line_that_a_kill_has_torn_is_left_out(tmp_path):
    """Wherever it is torn; the next run continues behind it."""
    whole = train_log(np.full(200, 5.0), np.full(200, 1e-3), 100)
    cut, end = whole.rindex("epoch: 1/2, iter: 100"), whole.index("2026", whole.index("epoch: 1/2, iter: 100"))
    for place in range(cut, whole.index(", ETA", cut)):
        for rest in ("", whole[end:]):
            (tmp_path / "train_log.txt").write_text(whole[:place] + rest)
            history = read_history(tmp_path)
            assert set(history.batches.lr) == {1e-3} and set(history.batches.loss) == {5.0}, whole[cut:place]
            assert set(history.batches.contents["size"]) <= {640, 672, 704}, whole[cut:place]


@pytest.mark.parametrize(
    ("args", "hyp", "same"),
    [
        ("faithful: true\n", "loss_ota: 1\n", False),
        ("faithful: true\nassigner: anchor\n", "loss_ota: 1\n", True),
        ("faithful: true\n", "loss_ota: 0\n", True),
        ("faithful: false\n", "loss_ota: 1\n", True),
    ],
)
def test_published_ota_is_validated_with_another_assigner(tmp_path, args, hyp, same):
    (tmp_path / "results.csv").write_text("epoch,train/box_loss,train/obj_loss,train/cls_loss\n0,1,2,3\n")
    (tmp_path / "args.yaml").write_text(args)
    (tmp_path / "hyp.yaml").write_text(hyp)
    assert read_history(tmp_path).same_loss is same


def test_own_folder(tmp_path):
    (tmp_path / "results.csv").write_text(
        "epoch,train/box_loss,train/obj_loss,train/cls_loss,metrics/mAP50(B),metrics/mAP50-95(B),val/box_loss,val/obj_loss,"
        "val/cls_loss,lr/pg0\n0,1,2,3,0.5,0.3,1,1,1,0.01\n1,1,1,1,,,,,,0.01\n"
    )
    (tmp_path / "args.yaml").write_text("epochs: 2\nfaithful: false\n")
    (tmp_path / "batches.csv").write_text(
        BATCHES + "0,0,6,1,2,3,0,10,0.2,nan,0.5,0,0.01,64,100,anchor\n0,1,6,1,2,3,0,20,0.2,3.5,1,0,0.01,64,100,anchor\n"
        "1,0,4,1,1,1,1,10,0.2,nan,0,0,0.01,64,50,ota\n1,1,4,1,1"
    )
    history = read_history(tmp_path / "results.csv")
    assert history.epochs.train.tolist() == [6, 3] and history.epochs.val[0] == 3 and np.isnan(history.epochs.val[1])
    assert history.epochs.fitness[0] == pytest.approx(0.32) and history.same_loss
    assert history.batches.loss.tolist() == [6, 6, 4] and history.batches.contents["mosaic"].tolist() == [0.5, 1, 0]
    phases = find_phases(history)
    assert [(phase.first, phase.last) for phase in phases] == [(1, 1), (2, 2)]
    for change in ("mosaic closed", "L1 on", "0.00 -> 0.00 M parameters", "assigner anchor -> ota"):
        assert change in phases[1].starts_with
    assert "gradient_norm" not in history.batches.contents


def test_foreign_csv(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(
        " epoch,  train/box_loss, train/cls_loss, val/box_loss, val/cls_loss, lr/pg0\n 1, 2.5, 1.5, 3, 1, 0.1\n"
    )
    history = read_history(path)
    assert (
        history.epochs.train.tolist() == [4]
        and history.epochs.val.tolist() == [4]
        and history.epochs.number.tolist() == [1]
    )
    path.write_text("step,loss,lr\n" + "".join(f"{i},{10 - i / 100},0.01\n" for i in range(500)))
    history = read_history(path)
    assert len(history.batches) == 500 and 10 <= len(history.epochs) <= 100


def test_a_spreadsheet_s_mark_is_no_part_of_a_heading(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("epoch,loss\n7,3\n8,2\n", encoding="utf-8-sig")
    assert read_history(path).epochs.number.tolist() == [7, 8]


def test_an_empty_cell_is_missing_and_nan_is_broken(tmp_path):
    path = tmp_path / "log.csv"
    rows = [f"{i},{5 - i / 10},{5 - i / 20}" for i in range(10)]
    path.write_text("\n".join(["epoch,loss,val_loss", *rows[:4], "4,,4.8", *rows[5:]]))
    history = read_history(path)
    assert np.isnan(history.epochs.train[4]) and history.epochs.val[4] == 4.8
    assert not [v for v in diagnose(history).verdicts if v.kind == "divergence"]
    path.write_text("\n".join(["epoch,loss,val_loss", *rows[:4], "4,nan,4.8", *rows[5:]]))
    assert "NaN, or above 1e+30, in 1 epoch, first in epoch 5" in diagnose(read_history(path)).verdicts[0].text


def test_a_batch_without_a_loss_is_left_out(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("epoch,step,loss,assigner\n0,0,5,a\n0,1,,b\n0,2,4,c\n1,3,nan,d\n")
    batches = read_history(path).batches
    assert batches.loss.tolist() == [5, 4, np.inf] and batches.assigner == ("a", "c", "d")
    path.write_text("epoch,step,loss\n0,0,\n")
    with pytest.raises(UserError, match="no row has a loss"):
        read_history(path)


@pytest.mark.parametrize(
    "line",
    [
        "iter {i}/150 - loss: {loss:.4f}, 2.1, 0.5, 2.0, 0.7, {lr:.3e}",
        "03:04:05 | INFO | iter {i}/150 - loss: {loss:.4f}, iou: 2.1, l1: 0.5, conf: 2, cls: .7, lr: {lr:.6f}",
        "Epoch {epoch}/3, iter {i}/150 - loss: {loss:.4f}, iou 2.1, l1 0.5, conf 2.0, cls 0.7, lr {lr:.3e}",
    ],
)
def test_the_log_of_a_loop(tmp_path, line):
    """A line every 50 iterations of 3 epochs, and one that is torn."""
    values = [(epoch, i, 9 - epoch - i / 1000) for epoch in (1, 2, 3) for i in (50, 100, 150)]
    lines = [line.format(epoch=epoch, i=i, loss=loss, lr=1e-4 * epoch) for epoch, i, loss in values]
    (tmp_path / "train_log.txt").write_text("starting\n" + "\n".join(lines) + "\niter 50/150 - loss: 3.0, 2.")
    history = read_history(tmp_path)
    assert history.format == "log of a loop" and history.batches.epoch.tolist() == [v[0] for v in values]
    np.testing.assert_allclose(history.batches.loss, [v[2] for v in values])
    np.testing.assert_allclose(history.batches.lr, [1e-4 * v[0] for v in values])
    assert history.batches.l1.tolist() == [0.5] * 9


def test_a_recipe_s_multi_scale_is_not_lost_behind_a_flag_that_is_off(tmp_path):
    (tmp_path / "results.csv").write_text("epoch,loss\n0,1\n")
    (tmp_path / "hyp.yaml").write_text("multi_scale: true\nbasic_lr_per_img: 0.1\n")
    (tmp_path / "args.yaml").write_text("multi_scale: false\n")
    assert read_history(tmp_path).settings["multi_scale"] is True


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "has no row"),
        ("a.csv", "epoch,loss\n", "has no row"),
        ("a.csv", "epoch,loss\n0,high\n", r"a\.csv:2: loss is 'high'"),
        ("a.csv", "epoch;loss\n0;1.234,5\n", r"a\.csv:2: loss is '1\.234,5'"),
        ("a.csv", "epoch,height\n0,3\n", "no column is a training loss: epoch, height"),
        ("a.csv", "loss,loss\n0,3\n", "'loss' stands twice"),
        ("a.csv", "epoch,loss\nnan,3\n", "an epoch has no number"),
        ("a.csv", "\0\0,\n1,1\n", "is not text"),
        ("results.txt", "nothing of the kind\n", "(?s)no line of 15 fields.*YOLOX's train_log.txt"),
        ("log.txt", "\n \n", "(?s)is empty.*a run's folder.*CSV of losses"),
        ("page.txt", "<HTML>\n<p>a, b</p>\n", "is a web page"),
        ("report.html", "\n<!doctype html>\n<p>a, b</p>\n", "(?s)is a web page.*YOLOv7's results.txt"),
        ("results.txt", "x/2 " + "1 " * 14, r"results\.txt:1: is 'x/2"),
        ("train_log.txt", "total_loss: 3\n", "(?s)holds no line `epoch.*CSV of losses"),
        ("train_log.txt", "iter 1/5 - loss: high\n", "has a number"),
        ("train_log.txt", "hello\n", "(?s)holds no line `epoch.*as YOLOX writes them.*YOLOv7's results.txt"),
        ("train_log.txt", "2026-01-02 | INFO | args: Namespace(batch_size=8, ckpt=None)\n", "as YOLOX writes them"),
    ],
)
def test_faults(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        read_history(tmp_path / name)


def test_a_log_may_begin_with_a_warning(tmp_path):
    warning = "<frozen runpy>:128: RuntimeWarning: 'a.b' found in sys.modules, this may be unpredictable\n"
    (tmp_path / "yolox.log").write_text(warning + train_log(np.full(20, 5.0), np.full(20, 1e-3), 10))
    (tmp_path / "loop.log").write_text(warning + "Epoch 1, iter 10/10 - loss: 5.0\nEpoch 2, iter 10/10 - loss: 5.0\n")
    for name in ("yolox.log", "loop.log"):
        assert read_history(tmp_path / name).epochs.train.tolist() == [5, 5]


def test_phases_follow_the_learning_rate(tmp_path):
    lr = [0.002, 0.006, 0.01, *[0.01] * 5, *[0.001] * 6]
    (tmp_path / "a.csv").write_text("epoch,loss,lr\n" + "".join(f"{i},{5 - i / 10},{x}\n" for i, x in enumerate(lr)))
    phases = find_phases(read_history(tmp_path / "a.csv"))
    assert [(p.first, p.last, p.starts_with, p.warms_up) for p in phases] == [
        (1, 3, "start", True), (4, 8, "warm-up over", False), (9, 14, "learning rate 0.01 -> 0.001", False),
    ]  # fmt: skip
    smooth = 0.005 * (1 + np.cos(np.linspace(0, np.pi, 10))) + 1e-5
    (tmp_path / "a.csv").write_text("epoch,loss,lr\n" + "".join(f"{i},5,{x}\n" for i, x in enumerate(smooth)))
    assert len(find_phases(read_history(tmp_path / "a.csv"))) == 1


def test_a_warm_up_that_dips_with_the_cosine_is_one(tmp_path):
    """YOLOv7's: each epoch of it has a little less to warm up to."""
    rates = [min((i + 1) / 400, 1) * (1 + np.cos(np.pi * (i // 20) / 100)) for i in range(2000)]
    assert (np.diff(rates[:400]) < 0).any()
    path = tmp_path / "log.csv"
    path.write_text("epoch,batch,loss,lr\n" + "".join(f"{i // 20},{i},5,{rate}\n" for i, rate in enumerate(rates)))
    assert [(phase.first, phase.warms_up) for phase in find_phases(read_history(path))] == [(1, True), (21, False)]


def test_a_run_that_is_still_warming_up(tmp_path):
    """Of steps that are not yet as long as they will be nothing is said."""
    rng = np.random.default_rng(0)
    rates, loss = np.arange(1, 161) / 640, 5 + np.cumsum(rng.standard_normal(160)) * np.arange(160) / 4000
    path, rows = tmp_path / "log.csv", zip(rates, loss, strict=True)
    path.write_text("epoch,batch,loss,lr\n" + "".join(f"{i // 32},{i},{x},{lr}\n" for i, (lr, x) in enumerate(rows)))
    (phase,) = find_phases(read_history(path))
    assert phase.warms_up and diagnose(read_history(path)).around is None
    cycle = np.concatenate((rates, rates[::-2]))
    path.write_text("epoch,batch,loss,lr\n" + "".join(f"{i // 32},{i},5,{lr}\n" for i, lr in enumerate(cycle)))
    assert not any(phase.warms_up for phase in find_phases(read_history(path))), "a cycle is no warm-up"


@pytest.mark.parametrize("name", ["log.csv", "log.txt"])
@pytest.mark.parametrize(("separator", "point"), [(";", ","), (";", "."), (",", ".")])
def test_tables_of_spreadsheets(tmp_path, name, separator, point):
    """In much of Europe cells end with a semicolon, because numbers have a comma."""
    rows = [["epoch", "loss", "val_loss", "lr"], ["0", "5.25", "", "1.5e-4"], ["1", "-4.5", "6", ".5"]]
    (tmp_path / name).write_text("\n".join(separator.join(row).replace(".", point) for row in rows) + "\n")
    epochs = read_history(tmp_path / name).epochs
    assert epochs.train.tolist() == [5.25, -4.5] and epochs.lr.tolist() == [1.5e-4, 0.5] and epochs.val[1] == 6


def test_a_table_with_tabs(tmp_path):
    (tmp_path / "log.tsv").write_text("epoch\tloss\n0\t5,5\n")
    assert read_history(tmp_path / "log.tsv").epochs.train.tolist() == [5.5]


def test_the_last_row_of_a_repeated_epoch_counts(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("epoch,loss\n0,9\n1,8\n2,7\n1,5\n2,4\n")
    epochs = read_history(path).epochs
    assert epochs.number.tolist() == [1, 2, 3] and epochs.train.tolist() == [9, 5, 4]
    path.write_text("epoch,iter,loss\n0,0,9\n0,1,8\n1,0,7\n1,0,5\n1,1,4\n")
    assert read_history(path).batches.loss.tolist() == [9, 8, 5, 4]
    path.write_text("iter,loss\n0,9\n1,8\n0,7\n1,6\n0,5\n1,4\n")  # no epochs: read from the last start
    assert read_history(path).batches.loss.tolist() == [5, 4]


def test_training_and_validation_in_rows_of_their_own_are_one_epoch(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("epoch,loss,val_loss\n0,5,\n0,,6\n1,4,\n1,,5\n")
    epochs = read_history(path).epochs
    assert epochs.train.tolist() == [5, 4] and epochs.val.tolist() == [6, 5]


def test_epochs_that_were_not_evaluated_have_no_score(tmp_path):
    """YOLOv7 writes zeros there; the noise of evaluations is not that between them and zero."""
    score, val = np.linspace(0.1, 0.4, 30), falling(30, 1)
    score[np.arange(30) % 3 != 2] = val[np.arange(30) % 3 != 2] = 0
    path = tmp_path / "results.txt"
    path.write_text(results_txt(falling(30), val, score))
    history = read_history(path)
    assert np.isfinite(history.epochs.fitness).tolist() == (np.arange(30) % 3 == 2).tolist()
    assert diagnose(history).choice.as_good == (30,)


@pytest.mark.parametrize(("warm_up", "last"), [(0.4, 1), (1, 1), (1.5, 2), (2, 2)])
def test_batches_show_where_the_warm_up_ends(tmp_path, warm_up, last):
    """Also within the first epoch, which rates at the ends of epochs do not show."""
    rates = [min((i + 1) / 20 / warm_up, 1) ** 2 * (1 - i / 400) for i in range(200)]
    path = tmp_path / "log.csv"
    path.write_text("epoch,batch,loss,lr\n" + "".join(f"{i // 20},{i},5,{rate}\n" for i, rate in enumerate(rates)))
    phases = find_phases(read_history(path))
    assert [(phase.first, phase.last, phase.warms_up) for phase in phases] == [(1, last, True), (last + 1, 10, False)]


def test_totals_are_of_the_terms_that_are_always_there(tmp_path):
    """L1 joins the loss late: nothing gets worse when it does."""
    path = tmp_path / "log.csv"
    rows = [f"{i},{9 - i},{i // 5},{8 - i},{i // 5}" for i in range(8)]
    path.write_text("\n".join(["epoch,train/box_loss,train/l1_loss,val/box_loss,val/l1_loss", *rows]))
    epochs = read_history(path).epochs
    assert epochs.train.tolist() == [9 - i for i in range(8)] and epochs.val.tolist() == [8 - i for i in range(8)]
    path.write_text("epoch,train/box_loss,train/l1_loss\n0,1,2\n1,1,1\n")
    assert read_history(path).epochs.train.tolist() == [3, 2]


def test_rows_out_of_order_are_put_in_order(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("epoch,loss,val_loss,lr,mAP\n" + "".join(f"{i},{i},{i},{i},{i}\n" for i in (3, 1, 2, 9, 5, 4)))
    history = read_history(path)
    for values in (getattr(history.epochs, name) for name in ("number", "train", "val", "lr", "fitness")):
        assert values.tolist() == [1, 2, 3, 4, 5, 9]
    assert [(phase.first, phase.last) for phase in find_phases(history)] == [(1, 9)]


EXPERIMENT = """2026-01-02 03:04:05 | INFO     | yolox.core.trainer:130 - exp value:
╒═══════════════════╤════════════════════════════╕
│ keys              │ values                     │
╞═══════════════════╪════════════════════════════╡
│ seed              │ None                       │
├───────────────────┼────────────────────────────┤
│ output_dir        │ './YOLOX_outputs'          │
│ max_epoch         │ 40                         │
│ warmup_epochs     │ 5                          │
│ basic_lr_per_img  │ 9.375e-06                  │
│ multiscale_range  │ 5                          │
│ enable_mixup      │ False                      │
│ mosaic_scale      │ (0.5, 1.5)                 │
│ strange           │ <object at 0x7f>           │
╘═══════════════════╧════════════════════════════╛
"""


def test_the_table_of_an_experiment_is_read(tmp_path):
    loss = falling(1500, noise=0.005) * np.exp(4 * np.maximum(np.arange(1500) / 1500 - 0.75, 0))
    (tmp_path / "train_log.txt").write_text(EXPERIMENT + train_log(loss, np.full(1500, 1e-3), 50, every=5))
    history = read_history(tmp_path)
    assert history.settings == {
        "output_dir": "./YOLOX_outputs", "max_epoch": 40, "warmup_epochs": 5, "basic_lr_per_img": 9.375e-06,
        "multiscale_range": 5, "enable_mixup": False, "mosaic_scale": (0.5, 1.5),
    }  # fmt: skip
    changes = [str(change) for change in diagnose(history).advice.changes]
    assert changes == ["basic_lr_per_img: 9.375e-06 -> 3.12e-06", "warmup_epochs: 5 -> 10"]
    (tmp_path / "args.yaml").write_text("max_epoch: 50\n")
    assert read_history(tmp_path).settings["max_epoch"] == 50, "files beside the log are above it"


LONG = "9" * 5000


@pytest.mark.parametrize(
    ("written", "damaged"),
    [
        ("epoch: 3/3", f"epoch: {LONG}/3"),
        ("epoch: 3/3", f"epoch: {'9' * 12}/3"),
        ("iter: 40/", f"iter: {LONG}/"),
        ("size: 640", f"size: {'9' * 400}"),
        ("= 0.300", "= 0.3.0"),
        ("= 0.300", "= ---"),
    ],
)
def test_numbers_in_a_log_of_yolox_that_are_none(tmp_path, written, damaged):
    text = train_log(falling(120), np.full(120, 0.01), per_epoch=40, scores=[0.1, 0.2, 0.3])
    assert written in text
    (tmp_path / "train_log.txt").write_text(text.replace(written, damaged))
    history = read_history(tmp_path)
    assert len(history.epochs) in (2, 3) and np.isfinite(history.epochs.train).all() and diagnose(history)


@pytest.mark.parametrize(("written", "damaged"), [("Epoch 3", f"Epoch {LONG}"), ("iter 40/", f"iter {LONG}/")])
def test_numbers_in_a_log_of_a_loop_that_are_none(tmp_path, written, damaged):
    lines = [
        f"Epoch {epoch} iter {i}/40 - loss: {10 / epoch + i / 100:.3f}" for epoch in (1, 2, 3) for i in range(1, 41)
    ]
    (tmp_path / "log.txt").write_text("\n".join(lines).replace(written, damaged))
    assert len(read_history(tmp_path / "log.txt").epochs) in (2, 3)


@pytest.mark.parametrize("epoch", ["9" * 400, "-3", LONG])
def test_an_epoch_of_yolov7_that_is_none(tmp_path, epoch):
    text = results_txt(falling(10), falling(10), np.linspace(0.1, 0.4, 10))
    (tmp_path / "results.txt").write_text(text.replace("9/9", f" {epoch}/9"))
    with pytest.raises(UserError, match=r"give results\.txt of a YOLOv7 run"):
        read_history(tmp_path)


@pytest.mark.parametrize("name", ["results.csv", "results.txt", "train_log.txt"])
def test_a_pipe_is_no_file_of_a_run(tmp_path, name):
    """Nobody may be writing into it."""
    os.mkfifo(tmp_path / name)
    with pytest.raises(UserError, match="holds no results"):
        read_history(tmp_path)


def test_a_file_that_cannot_be_read_next_to_the_results_is_a_remark(tmp_path):
    (tmp_path / "results.csv").write_text("epoch,train/box_loss\n" + "".join(f"{epoch},5\n" for epoch in range(8)))
    (tmp_path / "hyp.yaml").write_text("lr0: [1,\n")
    (tmp_path / "args.yaml").write_text("epochs: 8\n")
    (tmp_path / "batches.csv").write_text("epoch,batch,total\n")
    history = read_history(tmp_path)
    assert len(history.epochs) == 8 and history.settings == {"epochs": 8} and history.batches is None
    assert [remark.split()[0] for remark in history.remarks] == ["hyp.yaml", "batches.csv"]
