"""The command line as a user types it, in a process of its own."""

import json
import os
import subprocess
import sys

import pytest
import torch
import yaml

from tests import programs
from tests.model.small import SMALL
from tests.patience import PATIENCE
from yolofast import UserError, __version__, build_model, load_weights
from yolofast.checkpoint.save import model_content, save_checkpoint
from yolofast.cli import main
from yolofast.model.head_config import read_head_config


def yolofast(*args, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "yolofast", *map(str, args)], capture_output=True, text=True, cwd=cwd, timeout=PATIENCE
    )


def run(capsys, *args):
    """In this process, for speed: exit code, standard output, standard error."""
    try:
        code = main([str(a) for a in args])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="session")
def tiny_weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "tiny.pt"
    save_checkpoint(path, model_content(build_model("yolov7-tiny")))
    return path


@pytest.mark.slow
def test_help_and_version_without_loading_torch():
    done = yolofast("--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"yolofast {__version__}")
    done = yolofast("--help")
    assert done.returncode == 0
    assert "info" in done.stdout
    code = "import sys, yolofast.cli; yolofast.cli.build_parser(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.slow
def test_info_prints_the_table(capsys):
    code, out, err = run(capsys, "info", "--cfg", "yolov7-tiny-1b4h", "--img", 320, "--freeze", 50)
    assert code == 0, err
    assert "6,267,556" in out
    assert "2,931,332 (46.8%)" in out
    assert "3.46 GFLOPs" in out
    assert "frozen" in out
    assert "…" not in out, "nothing is cut off when the output is a pipe"


@pytest.mark.slow
def test_info_json(capsys):
    code, out, _ = run(capsys, "info", "--cfg", "yolov7-tiny-1b4h", "--img", 320, "--freeze", 74, "--json")
    content = json.loads(out)
    assert code == 0
    assert (content["parameters"], content["trainable"]) == (6_267_556, 1_819_780)
    assert content["sections"][-1]["name"] == "head"
    assert len(content["layers"]) == 78
    assert content["outputs"][0] == [1, 3, 40, 40, 25]
    assert content["activation_bytes"] > 0


@pytest.mark.slow
def test_info_of_other_sizes_and_classes(capsys):
    _, out, _ = run(capsys, "info", "--cfg", "yolov7-tiny", "--nc", 7, "--img", 320, 640, "--json")
    content = json.loads(out)
    assert content["parameters"] == 6_031_224
    assert content["outputs"][0] == [1, 3, 40, 80, 12]
    _, out, _ = run(capsys, "info", "--cfg", "yolov7-tiny", "--fuse", "--layers")
    assert "6,221,370" in out
    assert "IDetect" in out


@pytest.mark.slow
def test_transfer_table(capsys, tiny_weights):
    code, out, _ = run(
        capsys, "info", "--cfg", "yolov7-tiny-1b4h", "--weights", tiny_weights, "--transfer-weights", "--img", 320
    )
    assert code == 0
    assert "loaded 332 of 356 tensors" in out
    assert "model.77.heads.0.0.weight" in out
    assert "model.77.m.0.weight" in out


@pytest.mark.slow
def test_weights_that_do_not_fit_are_refused_without_transfer(capsys, tiny_weights):
    code, out, err = run(capsys, "info", "--cfg", "yolov7-tiny-1b4h", "--weights", tiny_weights)
    assert (code, out) == (2, "")
    assert "--transfer-weights" in err


@pytest.mark.slow
def test_a_weight_file_that_holds_its_graph_needs_no_cfg(capsys, tiny_weights):
    code, out, _ = run(capsys, "info", "--weights", tiny_weights)
    assert code == 0
    assert "loaded 344 of 344 tensors" in out


@pytest.mark.slow
def test_another_number_of_classes_needs_a_transfer_but_no_cfg(capsys, tiny_weights):
    args = ("info", "--weights", tiny_weights, "--nc", 7)
    assert run(capsys, *args)[0] == 2
    code, out, _ = run(capsys, *args, "--transfer-weights")
    assert code == 0
    assert "loaded 335 of 344" in out  # all but the three levels' weights, biases and scales
    assert "6,031,224" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({"config": {"img_size": [320, 416]}}, [416, 416]),  # a run's: for training, for evaluation
        ({"img_size": 320}, [320, 320]),  # stripped
        ({"config": {"img_size": [320]}, "img_shape": [192, 320]}, [192, 320]),
        ({}, [640, 640]),
    ],
    ids=["settings of a run", "stripped", "height and width", "nothing"],
)
def test_info_shows_the_size_the_weights_were_trained_for(capsys, tmp_path, said, shown):
    save_checkpoint(tmp_path / "last.pt", model_content(build_model("yolov7-tiny"), **said))
    args = ("info", "--weights", tmp_path / "last.pt", "--json")
    assert json.loads(run(capsys, *args)[1])["image_size"] == shown
    if "config" in said or not said:
        return
    assert json.loads(run(capsys, *args, "--img", 96)[1])["image_size"] == [96, 96], "what is asked for is above it"
    other = ("--cfg", "yolov7-tiny-1b4h", "--transfer-weights")
    assert json.loads(run(capsys, *args, *other)[1])["image_size"] == [640, 640], "another network"


@pytest.mark.slow
def test_strip(capsys, tmp_path):
    model = build_model("yolov7-tiny")
    full = tmp_path / "last.pt"
    momentum = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    save_checkpoint(full, model_content(model, ema=model, epoch=3, optimizer=momentum))
    small_file = tmp_path / "best.pt"
    code, out, _ = run(capsys, "strip", "--weights", full, "--out", small_file)
    assert code == 0
    assert "was" in out
    assert 12e6 < small_file.stat().st_size < 13.5e6
    assert torch.load(small_file, weights_only=True)["epoch"] == -1
    assert run(capsys, "info", "--weights", small_file)[0] == 0


@pytest.mark.slow
def test_reparam(capsys, tmp_path, tiny_weights):
    out_file = tmp_path / "deploy.pt"
    code, out, _ = run(capsys, "reparam", "--weights", tiny_weights, "--out", out_file)
    assert code == 0
    assert "head at layer 77" in out
    code, out, _ = run(capsys, "info", "--weights", out_file)
    assert code == 0
    assert "6,227,101" in out
    code, out, _ = run(capsys, "info", "--weights", out_file, "--cfg", "cfg/deploy/yolov7-tiny.yaml")
    assert code == 0


@pytest.fixture
def data_set(tmp_path):
    """Three classes of different shapes in ten images of 100×100 pixels (only PNG headers are read)."""
    import struct
    import zlib

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 100, 100, 8, 0, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(b"\0" * 101 * 100))
    png = b"\x89PNG\r\n\x1a\n" + header + pixels + chunk(b"IEND", b"")
    for kind in ("images", "labels"):
        (tmp_path / kind / "train").mkdir(parents=True)
    for i in range(10):
        (tmp_path / f"images/train/{i}.png").write_bytes(png)
        (tmp_path / f"labels/train/{i}.txt").write_text("0 .5 .5 .1 .5\n1 .5 .5 .3 .3\n2 .5 .5 .9 .1\n")
    path = tmp_path / "data.yaml"
    path.write_text(yaml.safe_dump({"path": str(tmp_path), "train": "images/train", "nc": 3, "names": ["a", "b", "c"]}))
    return path


@pytest.mark.slow
def test_heads(capsys, tmp_path, data_set):
    out_file = tmp_path / "heads.yaml"
    for grouping in ("geometry", "hybrid"):
        code, out, err = run(
            capsys, "heads", "--data", data_set, "--grouping", grouping, "--heads", 2, "--out", out_file
        )
        assert code == 0, err
        assert f"{grouping} grouping of 3 classes" in out
        args = ("info", "--cfg", "yolov7-tiny-1b4h", "--nc", 3, "--head-config", out_file, "--img", 320)
        assert run(capsys, *args)[0] == 0


@pytest.mark.slow
def test_anchors(capsys, data_set):
    code, out, _ = run(capsys, "anchors", "--data", data_set, "--cfg", "yolov7-tiny", "--img", 320)
    assert code == 0
    assert "30 boxes at 320 pixels" in out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["info"], "no model given"),
        (["info", "--cfg", "yolov7-tny"], "did you mean 'yolov7-tiny'"),
        (["info", "--cfg", "yolov7-tiny", "--freeze", "99"], "--freeze 99"),
        (["info", "--cfg", "yolov7-tiny", "--nc", "0"], "nc is 0"),
        (["info", "--cfg", "yolov7-tiny", "--wieghts", "x"], "did you mean '--weights'"),
        (["info", "--weights", "missing.pt"], "missing.pt"),
        (["info", "--cfg", "yolov7-tiny", "--img", "big"], "invalid int value: 'big'"),
        (["info", "--cfg", "yolov7-tiny", "--img", "1", "2", "3"], "give 1 to 2 whole numbers"),
        (["info", "--cfg", "yolov7-tiny", "--head-config", "standard"], "ends in IDetect"),
        (["strip", "--weights", "missing.pt"], "missing.pt"),
        (["heads", "--data", "missing.yaml", "--out", "x.yaml"], "missing.yaml"),
        (["fly"], "invalid choice"),
        (["ifno"], "did you mean 'info'"),
        (["info", "--cfg", "yolov7-tiny", "--img", "3200000000"], "of at least 1 and at most 32768"),
        (["info", "--cfg", "[/x].yaml"], "[/x].yaml"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(capsys, tmp_path, monkeypatch, args, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *args)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("yolofast: error:") == 1
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


@pytest.mark.slow
@pytest.mark.parametrize("out", [".", ""])
def test_a_folder_is_no_place_for_a_file(capsys, data_set, tiny_weights, out):
    for args in (
        ("strip", "--weights", tiny_weights),
        ("reparam", "--weights", tiny_weights),
        ("heads", "--data", data_set, "--heads", 2),
    ):
        code, _, err = run(capsys, *args, "--out", out)
        assert code == 2
        assert "it is a folder" in err


@pytest.mark.slow
def test_anchors_of_boxes_without_size(capsys, data_set):
    for label in data_set.parent.glob("labels/train/*.txt"):
        label.write_text("0 .5 .5 0 0\n")
    code, _, err = run(capsys, "anchors", "--data", data_set, "--cfg", "yolov7-tiny")
    assert code == 2
    assert "no box has a size" in err


def test_names_with_brackets_are_printed_as_they_are(capsys, tmp_path, data_set):
    data_set.write_text(data_set.read_text().replace("- a\n", "- '[/b]'\n"))
    code, out, _ = run(capsys, "heads", "--data", data_set, "--heads", 2, "--out", tmp_path / "h.yaml")
    assert code == 0
    assert "[/b]" in out


@pytest.mark.slow
def test_a_reader_that_leaves_early_and_a_terminal_without_unicode():
    command = f"{sys.executable} -m yolofast train --help | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stdout == "usage: yolofast train [flags]\n"
    assert done.stderr == ""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    args = [sys.executable, "-m", "yolofast", "info", "--cfg", "yolov7-tiny"]
    done = subprocess.run(args, capture_output=True, text=True, env=environment)
    assert done.returncode == 0
    assert "6,228,762" in done.stdout


@pytest.mark.slow
def test_reparam_keeps_what_half_precision_cannot_hold(capsys, tmp_path):
    model = build_model("yolov7-tiny")
    model.model[0].bn.running_var.fill_(1e6)
    save_checkpoint(tmp_path / "a.pt", model_content(model))
    assert run(capsys, "reparam", "--weights", tmp_path / "a.pt", "--out", tmp_path / "b.pt")[0] == 0
    state = torch.load(tmp_path / "b.pt", weights_only=True)["model"]
    assert all(t.isfinite().all() for t in state.values())
    assert state["model.77.anchors"].dtype == torch.float32
    assert state["model.5.conv.weight"].dtype == torch.float16


@pytest.mark.slow
def test_weights_keep_their_head_grouping(capsys, tmp_path):
    """Under another grouping the same tensors would mean other classes."""
    swapped = read_head_config("standard").to_dict()
    heads = swapped["head_assignments"]
    heads["head_0"], heads["head_1"] = heads["head_1"], heads["head_0"]
    save_checkpoint(tmp_path / "a.pt", model_content(build_model("yolov7-tiny-1b4h", head_config=swapped)))
    args = ("info", "--cfg", "yolov7-tiny-1b4h", "--weights", tmp_path / "a.pt")
    assert run(capsys, *args)[0] == 0
    code, _, err = run(capsys, *args, "--head-config", "standard")
    assert code == 2
    assert "the head owns other classes" in err or "meaning" in err
    code, out, _ = run(capsys, *args, "--head-config", "standard", "--transfer-weights")
    assert code == 0
    assert "loaded 332 of 356" in out


@pytest.mark.slow
def test_a_regrouped_checkpoint_names_the_reason_and_leaves_attention_out(tmp_path):
    config = read_head_config("standard").to_dict()
    attention = build_model("yolov7-tiny-1b4h-attn", head_config=config)
    save_checkpoint(tmp_path / "a.pt", model_content(attention))
    other = build_model("yolov7-tiny-1b4h-attn", head_config="anti-confusion")
    report = load_weights(other, tmp_path / "a.pt", transfer=True)
    assert len(report.loaded) == 332
    swapped = {**config, "head_assignments": dict(config["head_assignments"])}
    heads = swapped["head_assignments"]
    heads["head_0"], heads["head_1"] = heads["head_1"], heads["head_0"]
    with pytest.raises(UserError, match="the head owns other classes") as caught:
        load_weights(build_model("yolov7-tiny-1b4h-attn", head_config=swapped), tmp_path / "a.pt")
    assert "head_config" in caught.value.fix
    content = model_content(attention)
    heads = content["head_config"]["head_assignments"]
    content["head_config"]["head_assignments"] = dict(reversed(heads.items()))  # the order of keys means nothing
    save_checkpoint(tmp_path / "b.pt", content)
    assert load_weights(attention, tmp_path / "b.pt").total == 392


@pytest.mark.slow
def test_the_anchors_of_a_file_without_cfg_are_the_models_own(capsys, tmp_path, data_set):
    """As autoanchor leaves a model: buffers that differ from the graph's."""
    model = build_model("yolov7-tiny")
    model.head.set_anchors(model.anchors_px / 16)
    save_checkpoint(tmp_path / "a.pt", model_content(model))
    args = ("anchors", "--data", data_set, "--img", 320)
    _, own, _ = run(capsys, *args, "--weights", tmp_path / "a.pt")
    _, graphs, _ = run(capsys, *args, "--cfg", "yolov7-tiny", "--weights", tmp_path / "a.pt")
    _, plain, _ = run(capsys, *args, "--cfg", "yolov7-tiny")
    assert own != graphs == plain


@pytest.mark.slow
def test_output_that_cannot_be_written(tmp_path):
    with open("/dev/full", "w") as nowhere:
        full = programs.run([sys.executable, "-m", "yolofast", "info", "--cfg", "yolov7-tiny"], stdout=nowhere)
    assert full.returncode == 2
    assert "cannot be written" in full.stderr
    assert "Traceback" not in full.stderr
    closed = subprocess.run(
        f"{sys.executable} -m yolofast train --help >&-", shell=True, capture_output=True, text=True
    )
    assert (closed.returncode, closed.stderr) == (0, "")


@pytest.mark.slow
def test_transfer_keeps_the_anchors_of_the_cfg(capsys, tiny_weights):
    args = ("info", "--cfg", "yolov7-tiny-1b4h-320", "--weights", tiny_weights, "--transfer-weights")
    code, out, _ = run(capsys, *args)
    assert code == 0
    assert "loaded 330 of 356" in out
    assert "the model's own anchors are kept" in out


@pytest.mark.slow
def test_a_broken_model_file_from_the_shell(tmp_path):
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({**SMALL, "nc": "three"}))
    done = programs.run([sys.executable, "-m", "yolofast", "info", "--cfg", "mine.yaml"], cwd=tmp_path)
    assert done.returncode == 2
    assert "mine.yaml:" in done.stderr
    assert "nc is 'three'" in done.stderr
    assert "Traceback" not in done.stderr
