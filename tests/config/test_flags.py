"""Flags beyond the published ones: spellings, switches, messages, and what a namespace remembers."""

import argparse
import subprocess
import sys

import pytest

from tests.patience import PATIENCE
from yolofast.config.commands import COMMANDS
from yolofast.config.flags import FlagParser, add_flags, from_args, given_settings, parse_flags, with_full_flags
from yolofast.config.predict import PredictConfig
from yolofast.config.section import HEADINGS
from yolofast.config.settings import settings_of
from yolofast.config.train import TrainConfig

CONFIGS = [command.settings for command in COMMANDS]


def train(line):
    return from_args(TrainConfig, parse_flags(TrainConfig, TrainConfig(), line.split(), "yolofast train"))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--imgsz 416 --batch 8 --model yolov7", {"img_size": (416,), "batch_size": 8, "cfg": "yolov7"}),
        ("--close_mosaic 5 --single_cls", {"close_mosaic": 5, "single_cls": True}),
        ("--save-period 3 --local-rank 0", {"save_period": 3, "local_rank": 0}),
        ("--cache", {"cache": "ram"}),
        ("--cache gpu", {"cache": "gpu"}),
        ("--cache=off --epochs=7", {"cache": "off", "epochs": 7}),
        ("--compile", {"gear": "compile"}),
        ("--cos-lr", {"lr_schedule": "cosine"}),
        ("--flat_cos_lr", {"lr_schedule": "flat_cosine"}),
        ("--optimizer adamw --half", {"optimizer": "adamw", "precision": "fp16"}),
        ("--no-plots", {"plots": False}),
        ("--faithful", {"faithful": True}),
        ("--prec bf16 --pat 3", {"precision": "bf16", "patience": 3}),
    ],
)
def test_spellings(line, expected):
    config = train(line)
    assert {name: getattr(config, name) for name in expected} == expected


def test_values_of_a_recipe_add_up():
    """A second --set, such as the one `diagnose` proposes, leaves the first one's values as they are."""
    line = "--set multi_scale=false mosaic_prob=0.5 --set mosaic_prob=0.3"
    assert train(line).recipe_values == ("multi_scale=false", "mosaic_prob=0.5", "mosaic_prob=0.3")
    more = from_args(
        TrainConfig, parse_flags(TrainConfig, train(line), ["--set", "ema=false"], "yolofast profile --against")
    )
    assert more.recipe_values == (*train(line).recipe_values, "ema=false")
    assert train("--img 320 --img 416").img_size == (416,)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("epochs=3 data=a.yaml batch=4", {"epochs": 3, "data": "a.yaml", "batch_size": 4}),
        ("img_size=320,640 freeze=[backbone,neck]", {"img_size": (320, 640), "freeze": ("backbone", "neck")}),
        ("nosave=true plots=False quad=no", {"nosave": True, "plots": False, "quad": False}),
        ("--nosave=True --plots=0 --epochs=2", {"nosave": True, "plots": False, "epochs": 2}),
        ("cos-lr=1 weights= epoch=7", {"lr_schedule": "cosine", "weights": "", "epochs": 7}),
        ("--img 64 epochs=3 --quad", {"img_size": (64,), "epochs": 3, "quad": True}),
        ("--cache epochs=3", {"cache": "ram", "epochs": 3}),
        ("--name epochs=3 --batch -1", {"name": "epochs=3", "epochs": 100, "batch_size": -1}),
        ("lr0=0.001 epochs=2 mosaic=0.5", {"epochs": 2, "recipe_values": ("lr0=0.001", "mosaic=0.5")}),
        ("--set lr0=0.1 epochs=2", {"epochs": 100, "recipe_values": ("lr0=0.1", "epochs=2")}),
    ],
)
def test_name_and_value_in_one_word(line, expected):
    config = train(line)
    assert {name: getattr(config, name) for name in expected} == expected


def test_a_word_that_stands_alone_is_no_value_of_a_flag_that_was_a_pair():
    words = ["classes=0,2", "a=b.jpg", "photo.jpg", "source=x"]
    assert with_full_flags(words, PredictConfig) == ["a=b.jpg", "photo.jpg", "--classes", "0", "2", "--source=x"]
    assert with_full_flags(["batch=3", "--", "batch=3"], PredictConfig) == ["--batch=3", "--", "batch=3"]


def test_a_plain_parser_knows_the_flags_too():
    parser = argparse.ArgumentParser()
    add_flags(parser, TrainConfig, TrainConfig())
    assert from_args(TrainConfig, parser.parse_args(["--img", "96", "--label", "0.1"])).img_size == (96,)


def test_below_a_command():
    """Spelling is the business of the parser the flags were added to, not of the one above it."""
    parser = FlagParser(prog="yolofast")
    parser.add_argument("--version", action="store_true")
    command = parser.add_subparsers(dest="command", parser_class=FlagParser).add_parser("train")
    add_flags(command, TrainConfig, TrainConfig())
    namespace = parser.parse_args(["train", "--exist_ok", "--v5"])
    assert given_settings(TrainConfig, namespace) == {"exist_ok": True, "v5_metric": True}


def test_only_what_was_given_is_remembered():
    namespace = parse_flags(TrainConfig, TrainConfig.published(), ["--epochs", "300"], "train.py")
    assert given_settings(TrainConfig, namespace) == {"epochs": 300}
    assert from_args(TrainConfig, namespace) == TrainConfig.published()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--lr0=0.001", "unknown argument --lr0; a hyper-parameter is written lr0=0.001"),
        ("--epoch-s 3", "unknown argument --epoch-s, did you mean '--epochs'?"),
        ("--epochs three", "argument --epochs: invalid int value: 'three'"),
        ("--gear grahp", "did you mean 'graph'?"),
        ("--faithful --fixed", "not allowed with argument"),
        ("--cache gpu --cache-images", "not allowed with argument"),
        ("--lr-mult 3", "ambiguous option: --lr-mult"),
    ],
)
def test_mistakes_exit_with_2(line, message, capsys):
    with pytest.raises(SystemExit) as stop:
        train(line)
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert message in error and "fix: see yolofast train --help" in error


def test_what_follows_two_dashes_is_left_alone():
    words = ["--exist_ok", "--", "--exist_ok"]
    assert with_full_flags(words, TrainConfig) == ["--exist-ok", "--", "--exist_ok"]


@pytest.mark.parametrize("config_class", CONFIGS)
def test_no_spelling_stands_twice_and_every_section_is_shown(config_class, capsys):
    declared = settings_of(config_class).values()
    spellings = [flag for one in declared for flag in (*one.flags, *one.shortcuts)]
    assert len(spellings) == len(set(spellings))
    assert {one.section for one in declared} <= {None, *HEADINGS}
    with pytest.raises(SystemExit):
        parse_flags(config_class, None, ["--help"], "x")
    shown = capsys.readouterr().out
    assert all(flag in shown for flag in spellings if flag.startswith("-"))


def test_help_may_be_cut_short_as_ever(capsys):
    with pytest.raises(SystemExit) as stop:
        train("--he")
    assert stop.value.code == 0 and "--epochs" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        train("--h x")
    assert "ambiguous option: --h" in capsys.readouterr().err


def test_flags_without_effect_are_accepted_and_say_so(capsys):
    assert train("--bucket b").bucket == "b"
    with pytest.raises(SystemExit):
        train("--help")
    assert "nothing is uploaded to a storage bucket (accepted, no effect)" in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_help_does_not_load_torch():
    code = (
        "import sys; from yolofast.config import commands, flags, flags_page, hyp, resumed;"
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=PATIENCE).returncode == 0
