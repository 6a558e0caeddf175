"""What is made of the lines: rows by epoch, thinned batches, settings."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.watch.made_runs import append, batch_row, make_run, row
from yolofast.watch.run_curves import MOST, BatchCurve, EpochRows, Thinned
from yolofast.watch.settings_files import SettingsFiles
from yolofast.watch.watched_folder import WatchedFolder


def test_rows_come_one_by_one(tmp_path):
    run = make_run(tmp_path / "run", done=3)
    rows = EpochRows(WatchedFolder(run))
    rows.refresh()
    generation = rows.generation
    assert rows.column("epoch") == [0, 1, 2] and rows.column("nothing") == []
    append(run, row(3)[:20])
    rows.refresh()
    assert len(rows.rows) == 3, "half a row"
    append(run, row(3)[20:] + "\n")
    rows.refresh()
    assert rows.column("epoch") == [0, 1, 2, 3] and rows.generation == generation


def test_what_is_no_number_is_not_known(tmp_path):
    (tmp_path / "results.csv").write_text(" epoch , loss,map\n0,nan,\n1,inf,0.5\n2,<b>,1e400\n3,1\n,,\n4,0.25,1_0\n")
    rows = EpochRows(WatchedFolder(tmp_path))
    rows.refresh()
    assert rows.columns == ("epoch", "loss", "map")
    assert rows.rows == [(0, None, None), (1, None, 0.5), (2, None, None), (4, 0.25, 10)]
    json.dumps(rows.rows, allow_nan=False)


def test_a_repeated_epoch_replaces_the_first_attempt(tmp_path):
    (tmp_path / "results.csv").write_text("epoch,loss\n0,9\n1,8\n2,7\n")
    rows = EpochRows(WatchedFolder(tmp_path))
    rows.refresh()
    before = rows.generation
    append(tmp_path, "1,6\n2,5\n")
    rows.refresh()
    assert rows.rows == [(0, 9), (1, 6), (2, 5)] and rows.generation != before


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"\n\n1,2\n", b"\xff\xfe\x00\n\x00,1\n", b"epoch\n" + b"1," * 9999 + b"\n"]
)
def test_odd_files(tmp_path, content):
    (tmp_path / "results.csv").write_bytes(content)
    rows = EpochRows(WatchedFolder(tmp_path))
    rows.refresh()
    assert all(len(one) == len(rows.columns) for one in rows.rows)


@pytest.mark.slow
@given(st.lists(st.none() | st.floats(-1e6, 1e6), max_size=5 * MOST))
def test_thinned_agrees_with_numpy(values):
    thinned = Thinned()
    for value in values:
        thinned.add(value)
    points = thinned.points()
    assert thinned.count == len(values) and len(points["x"]) <= MOST
    for i, x in enumerate(points["x"]):
        first = i * thinned.width
        stretch = values[first : first + thinned.width]
        known = [value for value in stretch if value is not None]
        assert x == pytest.approx(np.mean(np.arange(first + 1, first + 1 + len(stretch))))
        if known:
            assert points["y"][i] == pytest.approx(np.mean(known), abs=1e-6)
            assert (points["low"][i], points["high"][i]) == (min(known), max(known))
        else:
            assert points["y"][i] is points["low"][i] is points["high"][i] is None


@pytest.mark.slow
def test_thinned_keeps_the_peak_of_a_million():
    thinned = Thinned()
    for i in range(300_000):
        thinned.add(99.0 if i == 123_456 else 1.0)
    points = thinned.points()
    assert MOST // 2 <= len(points["x"]) <= MOST and max(points["high"]) == 99


def test_batches_follow_their_file(tmp_path):
    run = make_run(tmp_path / "run", done=2)
    curve = BatchCurve(WatchedFolder(run))
    assert not curve.refresh()
    assert curve.loss.points()["y"] == pytest.approx([0.2] * 4 + [0.1] * 4)
    append(run, batch_row(2, 0, 0.5) + "\n" + "2,1,0.", "batches.csv")
    curve.refresh()
    assert curve.loss.count == 9
    (run / "batches.csv").unlink()
    curve.refresh()
    assert curve.loss.count == 0


def test_settings_are_flat_short_and_follow_their_files(tmp_path):
    (tmp_path / "hyp.yaml").write_text("lr0: 0.01\nmosaic: 1.0\n")
    (tmp_path / "args.yaml").write_text(
        "mosaic: 0.5\nimg: [320, 320]\nname: '" + "x" * 5000 + "'\nodd: .nan\n1: true\n"
    )
    files = SettingsFiles(WatchedFolder(tmp_path))
    values = files.read()["settings"]
    assert (values["lr0"], values["mosaic"], values["img"], values["1"]) == (0.01, 0.5, "[320, 320]", True)
    assert len(values["name"]) == 120 and values["odd"] == "nan"
    (tmp_path / "args.yaml").write_text("mosaic: 0.25\nhalf: [1,\n")
    assert files.read()["settings"] == {"lr0": 0.01, "mosaic": 1.0}, "what is half-written is left out"


def test_the_assigner_is_the_one_that_is_used(tmp_path):
    (tmp_path / "hyp.yaml").write_text("loss_ota: 1\n")
    (tmp_path / "args.yaml").write_text("assigner: null\nota_from_epoch: null\nseed: 0\n")
    files = SettingsFiles(WatchedFolder(tmp_path))
    assert files.read()["settings"] == {"assigner": "ota", "seed": 0}
    (tmp_path / "hyp.yaml").write_text("loss_ota: 1\nassigner: [[0, anchor], [70, ota]]\n")
    assert files.read()["settings"] == {"assigner": "[[0, 'anchor'], [70, 'ota']]", "seed": 0}


def test_settings_that_grow_when_they_are_printed_do_not(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    (tmp_path / "args.yaml").write_text("\n".join(lines))
    assert len(json.dumps(SettingsFiles(WatchedFolder(tmp_path)).read())) < 3000


def test_hardware_is_what_the_run_used(tmp_path):
    run = make_run(tmp_path / "run", device="0,1", environment={"gpu": "card", "gpus": 8, "cpu": "x", "cpu_cores": 4})
    files = SettingsFiles(WatchedFolder(run))
    assert files.read()["hardware"] == {"gpu": "card", "gpus": 2, "cpu": None, "cpu_cores": 4}
    (run / "args.yaml").write_text("device: cpu\n")
    assert files.read()["hardware"] == {"gpu": "no GPU", "gpus": None, "cpu": "x", "cpu_cores": 4}
    (run / "env.json").unlink()
    (run / "args.yaml").unlink()
    assert set(files.read()["hardware"].values()) == {None}, "no file says it"


@pytest.mark.parametrize(
    "content", ["", "{", "[1]", "null", "[" * 9999, '{"gpu": NaN, "cpu_cores": 1e999, "gpus": [NaN]}']
)
def test_a_machine_that_is_described_oddly(tmp_path, content):
    run = make_run(tmp_path / "run")
    (run / "env.json").write_text(content)
    json.dumps(SettingsFiles(WatchedFolder(run)).read()["hardware"], allow_nan=False)
