"""What a run says of itself before it trains, and leaves in its folder."""

import dataclasses

import pytest
import torch

from tests.train.small_run import flags
from yolofast import build_model
from yolofast.cli import parse
from yolofast.config.flags import from_args, given_settings
from yolofast.config.train import TrainConfig
from yolofast.precision import Precision
from yolofast.report.run.run_page import report_page
from yolofast.train import run as run_module
from yolofast.train.resume import beginning
from yolofast.train.run import prepare_run


def begun(tmp_path, **changes):
    args = parse(["train", *flags(tmp_path, **changes)])
    return beginning(from_args(TrainConfig, args), given_settings(TrainConfig, args)).config


@pytest.mark.slow
def test_network_data_device_and_length(tmp_path):
    said = []
    run = prepare_run(begun(tmp_path, cfg="cfg/training/mini.yaml"), said.append)
    parameters = sum(p.numel() for p in run.model.parameters())
    assert said[0] == f"network: mini, {parameters:,} parameters, 8 classes, from scratch"
    assert said[1] == f"data: {tmp_path / 'shapes' / 'data.yaml'}, 24 images to train on, 4 to validate on"
    assert said[2] == f"device: CPU, {torch.get_num_threads()} of its threads, fp32"
    assert said[3] == "training: 64 pixels, batches of 8, 3 epochs"
    again = []
    prepare_run(dataclasses.replace(run.config, device=""), again.append, fresh=False)
    assert again[0].endswith("8 classes, as trained so far")
    if not torch.cuda.is_available():
        assert again[2].startswith("device: no GPU can be used, so the CPU, ")


@pytest.mark.slow
@pytest.mark.parametrize("why", ["", "ours need Triton: pip install triton"])
def test_a_gpu_without_our_kernels_says_so_in_one_line(tmp_path, monkeypatch, why):
    run = prepare_run(begun(tmp_path), lambda text: None)
    monkeypatch.setattr(run_module, "WHY_NOT_OUR_KERNELS", why)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "T4")
    for device, expected in (
        ("cuda", [f"kernels: those of torch, which are slower ({why})"] if why else []),
        ("cpu", []),
    ):
        precision = Precision(torch.device(device), torch.float16)
        lines = run_module.introduction(run.rules, run.data, run.model, precision, fresh=True)
        assert [line for line in lines if line.startswith("kernels")] == expected, device


@pytest.mark.slow
def test_the_network_of_weights_is_named(tmp_path):
    torch.save({"model": build_model("yolox-nano", nc=8).state_dict()}, tmp_path / "nano.pth")
    said = []
    run = prepare_run(begun(tmp_path, cfg="", weights=tmp_path / "nano.pth"), said.append)
    (line,) = (line for line in said if line.startswith("network: "))
    assert line.startswith("network: yolox-nano, ") and line.endswith(f"from the weights {tmp_path / 'nano.pth'}")
    assert run.network_facts == {"network": "yolox-nano", "parameters": sum(p.numel() for p in run.model.parameters())}


@pytest.mark.parametrize(("cfg", "shown"), [("", "yolox-nano · "), ("mini", "mini · ")])
def test_the_report_names_the_network(trained_folder, tmp_path, cfg, shown):
    run = tmp_path / "run"
    run.mkdir()
    for name in ("args.yaml", "results.csv"):
        (run / name).write_bytes((trained_folder / "runs" / "run" / name).read_bytes())
    (run / "args.yaml").write_text((run / "args.yaml").read_text().replace("cfg: mini", f"cfg: '{cfg}'"))
    (run / "env.json").write_text('{"network": "yolox-nano"}')
    assert report_page(run).subtitle.startswith(shown)


def test_a_run_says_it_and_keeps_it(trained_folder):
    assert '"network": "mini"' in (trained_folder / "runs" / "run" / "env.json").read_text()
