"""Compiled kernels are kept by the sources of what is compiled: no more of them, and no less."""

import ast
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from yolofast.config.hyp import hyp_of
from yolofast.config.train import TrainConfig
from yolofast.model.network import build_model
from yolofast.precision import Precision
from yolofast.structures import Targets
from yolofast.train.families.family import rules_of
from yolofast.train.gears.compiling import AROUND, PACKAGE, compiled_sources, key_of_sources, sources_of
from yolofast.train.run import prepare_step


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("copy") / "yolofast"
    return Path(shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__", "*.yaml")))


@pytest.fixture(scope="module")
def key():
    return key_of_sources()


def file_of(copy: Path, name: str) -> Path:
    """By its path in the package, or wherever the only one of its name is."""
    if (copy / name).exists():
        return copy / name
    (found,) = copy.rglob(name)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "is_compiled"),
    [
        ("ota.py", True), ("blocks.py", True), ("boxes.py", True), ("train/step.py", True), ("_select_kernel.py", True),
        ("yolox_criterion.py", True), ("yolov7_criterion.py", True),
        ("display.py", False), ("loop.py", False), ("train/session.py", False), ("cli.py", False),
        ("config/train.py", False), ("device_loader.py", False), ("commands/convert_nuscenes.py", False),
        ("track/nuscenes/export.py", False), ("export/formats/onnx.py", False), ("terminal/console.py", False),
    ],
)  # fmt: skip
def test_a_change_of_what_is_compiled_changes_the_key(copy, key, name, is_compiled):
    file = file_of(copy, name)
    text = file.read_text(encoding="utf-8")
    file.write_text(f"{text}\n# another one\n", encoding="utf-8")
    assert (key_of_sources(copy) != key) == is_compiled
    file.write_text(text, encoding="utf-8")


@pytest.mark.slow
def test_the_same_sources_elsewhere_have_the_same_key(copy, key):
    assert key_of_sources(copy) == key


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cfg", "assigner", "quad"),
    [
        ("yolov7-tiny", "ota", False),
        ("yolov7-tiny", "anchor", True),
        ("yolov7-tiny", "tal", False),
        ("yolov7-tiny-1b4h", "ota", False),
        ("yolox-nano", "ota", False),
    ],
)
def test_all_that_runs_between_images_and_losses_is_known(cfg, assigner, quad):
    """Not what is called once, when network and loss are built."""
    config = replace(TrainConfig(), cfg=cfg, img_size=(64,), device="cpu", hyp="data/hyp.scratch.tiny.yaml", quad=quad)
    model = build_model(cfg).train()
    rules = rules_of(config, {**hyp_of(config), "assigner": assigner}, model)
    _, step = prepare_step(rules, model, Precision.choose("fp32", "cpu"))
    targets = Targets.from_rows(torch.tensor([[0, 1, 0.5, 0.5, 0.3, 0.4], [1, 2, 0.4, 0.6, 0.2, 0.2]]), 2)
    seen = set()
    sys.setprofile(lambda frame, event, value: seen.add(frame.f_code.co_filename))
    try:
        step.loss_of(torch.rand(2, 3, 64, 64), targets).total.backward()
    finally:
        sys.setprofile(None)
    own, known = {Path(name) for name in seen if Path(name).is_relative_to(PACKAGE)}, set(compiled_sources())
    assert len(own) > 5 and own <= known, own - known


def test_what_is_compiled_takes_nothing_of_the_rooms_around():
    """But a file of hyper-parameters that a user names, which is read before anything is compiled."""
    taken = {
        f"{node.module}.{alias.name}"
        for path in compiled_sources()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
        if node.module.startswith(tuple(f"{PACKAGE.name}.{room}" for room in AROUND))
    }
    assert taken == {"yolofast.config.hyp.read_hyp"}


def test_imports_in_functions_count_and_names_are_not_modules(tmp_path):
    for name, text in {
        "a": "from yolofast.b import thing\nimport torch",
        "b": "def f():\n    from yolofast import c",
        "c": "import yolofast.a",
        "d": "",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    assert [path.stem for path in sources_of(["yolofast.a"], tmp_path)] == ["a", "b", "c"]
