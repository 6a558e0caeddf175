"""The table of commands, and how a command declares its settings: shown with one that is made up here."""

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from yolofast.cli import main, parse
from yolofast.config import commands
from yolofast.config.commands import COMMANDS, Command
from yolofast.config.flags import from_args, parse_flags
from yolofast.config.reports import CompareConfig, ProfileConfig
from yolofast.config.settings import REQUIRED, Settings, setting
from yolofast.config.tools import CheckConfig
from yolofast.config.train import TrainConfig


@dataclass(frozen=True, kw_only=True)
class CountConfig(Settings):
    folder: str = setting(REQUIRED, "FOLDER", metavar="FOLDER", help="where to count")
    suffix: Literal["jpg", "png"] = setting("jpg", "--suffix", "--kind", help="what to count")
    least_size: int = setting(0, "--least-size", least=0, help="bytes, from {default}")
    out: str = setting(REQUIRED, "--out", help="file to write")


def count(args):
    config = from_args(CountConfig, args)
    found = [one for one in Path(config.folder).glob(f"*.{config.suffix}") if one.stat().st_size >= config.least_size]
    Path(config.out).write_text(str(len(found)))


@pytest.mark.slow
def test_a_command_is_a_line_and_a_function(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "yolofast.commands.count", sys.modules[__name__])  # as if it lay there
    line = Command("count", "count pictures", CountConfig, "count:count")
    monkeypatch.setattr("yolofast.cli.COMMANDS", (*COMMANDS, line))
    for name in ("a.jpg", "b.jpg", "c.png"):
        (tmp_path / name).write_bytes(b"1234")
    out = tmp_path / "count.txt"
    assert main(["count", str(tmp_path), "--out", str(out)]) == 0 and out.read_text() == "2"
    assert main(["count", str(tmp_path), "--out", str(out), "--kind", "png"]) == 0 and out.read_text() == "1"
    assert main(["count", str(tmp_path), "--out", str(out), "--least_size", "5"]) == 0 and out.read_text() == "0"
    assert main(["count", str(tmp_path), "--out", str(out), "--least", "-1"]) == 2
    assert "--least-size is -1\n  fix: give a whole number of at least 0" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["count", "--help"])
    shown = capsys.readouterr().out
    assert "usage: yolofast count [-h] [--suffix {jpg,png}] [--least-size LEAST_SIZE]" in shown
    assert "what to count (default: jpg)" in shown and "bytes, from 0" in shown and "where to count" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "x"], "the following arguments are required: FOLDER"),
        (["here"], "the following arguments are required: --out"),
        (["here", "--out", "x", "--suffix", "pgn"], "did you mean 'png'?"),
    ],
)
def test_what_is_required_is_asked_for(words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        parse_flags(CountConfig, None, words, "count")
    assert stop.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_is_there(command):
    module, function = command.run.split(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_names_are_distinguished():
    names = [command.name for command in commands.COMMANDS]
    assert len(names) == len(set(names))


def test_values_with_commas_are_one_word():
    args = parse(["compare", "a", "b", "--epochs", "10, 50,100", "--hours", "1", "2.5"])
    config = from_args(CompareConfig, args)
    assert (config.epochs, config.hours, config.runs) == ((10, 50, 100), (1.0, 2.5), ("a", "b"))


def test_spelling_is_forgiven_in_every_command():
    requested = from_args(CheckConfig, parse(["check", "--data", "d", "--single_cls", "--pl", "x.jpg"]))
    assert requested.single_cls and requested.plot == "x.jpg"


def test_profile_has_the_flags_of_training_too():
    """Cut short they mean the same as there: --tra is --transfer-weights, not --trace."""
    args = parse(["profile", "--warm_up", "3", "--comp", "--tra", "--weights", "w.pt", "--epochs", "7"])
    requested, training = from_args(ProfileConfig, args), from_args(TrainConfig, args)
    assert (requested.warm_up, requested.steps, requested.trace, requested.compile_report) == (3, 50, None, False)
    assert (training.gear, training.transfer_weights, training.epochs) == ("compile", True, 7)
