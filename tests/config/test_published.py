"""Every command line of the published scripts means the same here, cut-short flags included."""

from pathlib import Path

import pytest

from tests.config import published_flags
from yolofast.config.flags import from_args, parse_flags
from yolofast.config.predict import PredictConfig, ValConfig
from yolofast.config.train import TrainConfig

SCRIPTS = {
    "train": (published_flags.train, TrainConfig),
    "val": (published_flags.val, ValConfig),
    "predict": (published_flags.predict, PredictConfig),
}
# Published switches that set what has more than two values here.
ELSEWHERE = {
    "cache_images": ("cache", "ram", "auto"),
    "adam": ("optimizer", "adam", "sgd"),
    "linear_lr": ("lr_schedule", "linear", "auto"),
}
EXAMPLES = {int: "64", float: "0.5", str: "0"}
NOT_A_NUMBER = {"task": "speed"}


def parse(config_class, words):
    return from_args(config_class, parse_flags(config_class, config_class.published(), words, "script.py"))


def assert_same(config, published):
    for name, value in vars(published).items():
        if name in ELSEWHERE:
            field, on, off = ELSEWHERE[name]
            assert getattr(config, field) == (on if value else off), name
        else:
            found = getattr(config, name)  # some take several values here, where the published script takes one
            assert found == (tuple(value) if isinstance(value, list) else value) or found == (value,), name


def value_of(action):
    return [] if action.nargs == 0 else [NOT_A_NUMBER.get(action.dest, EXAMPLES[action.type or str])]


@pytest.mark.parametrize("script", SCRIPTS)
def test_defaults(script):
    reference, config_class = SCRIPTS[script]
    assert_same(config_class.published(), reference().parse_args([]))
    assert_same(parse(config_class, []), reference().parse_args([]))


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_every_flag_and_every_prefix_that_was_clear(script):
    """The reference refuses ambiguous prefixes; what it accepts has to have the same effect here."""
    make_reference, config_class = SCRIPTS[script]
    reference = make_reference()
    tried = set()
    for action in reference._actions[1:]:
        flag = action.option_strings[0]
        for prefix in (flag[:end] for end in range(3, len(flag) + 1)):
            if len([one for one in reference._option_string_actions if one.startswith(prefix)]) > 1 and prefix != flag:
                continue
            words = [prefix, *value_of(action)]
            assert_same(parse(config_class, words), reference.parse_args(words))
            tried.add(prefix)
    assert {"--img", "--na", "--exist"} <= tried and len(tried) > 50
    assert {"--batch", "--worker", "--p"} <= tried or script != "train"


def test_forms_of_values():
    line = "--img-size 640 320 --freeze 0 1 2 --resume a/last.pt --batch-size=-1"
    config = parse(TrainConfig, line.split())
    assert (config.img_size, config.freeze, config.resume) == ((640, 320), (0, 1, 2), "a/last.pt")
    assert (config.batch_size, config.train_size, config.test_size) == (-1, 640, 320)
    assert parse(TrainConfig, ["--resume"]).resume is True


def test_commands_of_the_documentation():
    line = "--workers 2 --batch-size 2 --epochs 1 --nosave --data data/shapes.yaml --img 320"
    cfg = ["--cfg", "cfg/training/yolov7-tiny.yaml"]
    config = parse(TrainConfig, [*line.split(), *cfg, "--fast-dataloader", "--persistent-workers", "--worker-tensor"])
    assert (config.workers, config.batch_size, config.epochs, config.nosave) == (2, 2, 1, True)
    assert (config.img_size, config.cfg) == ((320,), "cfg/training/yolov7-tiny.yaml")
    assert config.fast_dataloader and config.persistent_workers and config.worker_tensor and config.faithful


@pytest.mark.parametrize("flag", ["--precision fp16", "--loader cpu", "--cache off", "--gear eager"])
def test_what_the_drop_in_script_computes_in_another_way_is_listed(flag):
    """Left to itself, train.py takes the fast way."""
    name, value = flag.removeprefix("--").split()
    assert getattr(TrainConfig.published(), name) == "auto" and value != "auto"
    page = (Path(__file__).parents[2] / "docs" / "differences.md").read_text(encoding="utf-8")
    assert f"`{flag}`" in page.split("## How `train.py` computes on a GPU")[1].split("\n## ")[0]
