"""What is shown, on a terminal and elsewhere."""

import io
import re
import time

import pytest
from rich.console import Console

from yolofast.train.display import Display

ROW = {
    "epoch": 1, "train/box_loss": 0.05, "train/obj_loss": 0.01, "train/cls_loss": 0.02, "lr/pg0": 0.0123,
    "img/s": 5123.4, "data_wait": 0.034, "gpu_memory": 3.25,
}  # fmt: skip
LOSSES = {"box": 0.0512, "obj": 0.0123, "cls": 0.0234, "total": 0.1}


def plain(epochs=4, **settings):
    text = io.StringIO()
    return Display(epochs, Console(file=text, soft_wrap=True, highlight=False), **settings), text


def test_an_epoch_is_one_line_under_its_header():
    display, text = plain()
    display.result(ROW)
    display.result({**ROW, "epoch": 2, "metrics/mAP50(B)": 0.5})
    header, first, second = text.getvalue().splitlines()
    assert len(header) == len(first) == len(second)
    cells = dict(zip(header.replace("GPU GiB", "GPU").split(), first.split(), strict=True))
    assert cells["epoch"] == "2/4" and cells["mAP50"] == "-" and cells["lr"] == "0.0123" and cells["img/s"] == "5,123"
    assert cells["wait"] == "3%" and cells["GPU"] == "3.25"
    assert "0.500" in second and "3/4" in second


def test_losses_that_ran_away_or_were_undone_keep_to_their_columns():
    display, text = plain()
    display.result({**ROW, "train/box_loss": 4.0688e29, "train/obj_loss": float("nan"), "train/cls_loss": 123456.7})
    display.result({**ROW, "train/box_loss": None, "train/obj_loss": None, "train/cls_loss": None})
    header, first, second = text.getvalue().splitlines()
    assert len(header) == len(first) == len(second)
    assert first.split()[1:4] == ["4.1e+29", "nan", "1.2e+05"] and second.split()[1:4] == ["-", "-", "-"]


def test_no_column_for_a_gpu_that_is_not_used():
    display, text = plain()
    display.result({**ROW, "gpu_memory": 0.0})
    header, line = text.getvalue().splitlines()
    assert len(header) == len(line) and "GPU" not in header and len(line.split()) == len(header.split())


def test_a_column_for_l1_where_there_is_one():
    display, text = plain()
    display.result({**ROW, "train/l1_loss": 0.0})
    header, line = text.getvalue().splitlines()
    assert len(header) == len(line) and header.split()[:5] == ["epoch", "box", "obj", "cls", "l1"]


def test_a_short_epoch_says_nothing_on_the_way():
    display, text = plain()
    with display.epoch(0, 100, lambda: LOSSES) as line:
        for _ in range(100):
            line.batch_done(16, 0.0, 0.01)
    assert text.getvalue() == ""


@pytest.mark.slow
def test_plain_lines_come_no_more_often_than_asked():
    display, text = plain(plain_every=0.1)
    start, looks = time.monotonic(), []
    with display.epoch(1, 60, lambda: looks.append(1) or LOSSES) as line:
        for _ in range(60):
            line.batch_done(16, 0.0, 0.01)
            time.sleep(0.005)
    lines = text.getvalue().splitlines()
    assert 1 <= len(lines) <= (time.monotonic() - start) / 0.1
    assert len(looks) == len(lines)  # the device is not asked for every batch
    assert re.match(
        r"epoch 2/4, batch \d+/60: box 0\.0512 obj 0\.0123 cls 0\.0234, left \d:\d\d, [\d,]+ img/s", lines[0]
    )


def test_figures_of_a_running_epoch():
    display, text = plain(plain_every=0.0)
    begun = time.monotonic()
    with display.epoch(0, 2) as line:  # nothing is known of the losses yet
        time.sleep(0.1)
        line.batch_done(20, 0.05, 0.002)
    took = time.monotonic() - begun
    (said,) = text.getvalue().splitlines()
    found = re.search(r": left (\d+):(\d\d), (\d+) img/s, wait (\d+)%, lr 0\.002", said)
    minutes, seconds, speed, wait = map(int, found.groups())
    assert int(20 / took) <= speed <= 200 and int(5 / took) <= wait <= 50
    assert 0.7 - 0.5 <= 60 * minutes + seconds <= 7 * took + 0.5  # an eighth of the run is done


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 160])
def test_a_terminal_has_a_line_that_moves_and_goes_away(width):
    text = io.StringIO()
    display = Display(4, Console(file=text, force_terminal=True, width=width, color_system=None))
    with display.epoch(0, 2, lambda: LOSSES) as line:
        time.sleep(0.3)
        line.batch_done(16, 0.0, 0.01)
        moving = text.getvalue()
        display.say("in between")
    assert "epoch 1/4" in moving and "1/2" in moving and "box 0.0512" in moving
    assert "in between" in text.getvalue() and text.getvalue().endswith("\x1b[2K")  # the line is erased
    with display.doing("evaluating"):
        pass
