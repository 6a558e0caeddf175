"""Experiments that a stranger has written."""

import json

import pytest

from tests.hostile.cost import cheap, refused
from yolofast.errors import UserError
from yolofast.sweep.experiment import read_experiment
from yolofast.sweep.folder import SweepFolder

SEARCH = "search: {lr0: {uniform: [0.001, 0.1]}}\nconstraints: ['%s']"
BAD = {
    "whole numbers of 300 digits": "search: {epochs: {int: [1, %s]}}" % ("9" * 300),
    "numbers of 400 digits": "search: {lr0: {uniform: [0, %s]}}" % ("9" * 400),
    "more than 64 bits": "search: {epochs: {int: [0, 18446744073709551616]}}",
    "a constraint of spaces": SEARCH % (" " * 20_000 + "<" * 20_000 + " 3"),
    "epochs that are none": "base: {epochs: .nan}\nmethod: pbt\nsearch: {lr0: {log: [0.1, 1]}}",
    "a list of epochs": "base: {epochs: [1]}\ngrid: {lr0: [0.1]}",
    "epochs without end": "base: {epochs: 1000000000}\nmethod: pbt\nsearch: {lr0: {log: [0.1, 1]}}\npbt: {every: 1}",
    "less than a trial": "grid: {lr0: [0.1]}\nbudget: {trials: 0.1}",
    "many constraints": "search: {lr0: {uniform: [0.001, 0.1]}}\nconstraints: [" + "lr0 > 0," * 20_000 + "]",
    "a constraint of factors": SEARCH % ("lr0*" * 20_000 + "1 < 2"),
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_refused(tmp_path, text):
    (tmp_path / "e.yaml").write_text(text)
    with refused("search|constraints|epochs|budget"):
        read_experiment(tmp_path / "e.yaml")


def test_products_that_no_number_holds(tmp_path):
    (tmp_path / "e.yaml").write_text("search: {lr0: {uniform: [0.001, 0.1]}}\nconstraints: ['lr0 * seed < 1']")
    (constraint,) = read_experiment(tmp_path / "e.yaml").constraints
    with cheap():
        assert constraint.holds({"lr0": 0.5, "seed": 10**400})


@pytest.mark.parametrize("name", ["../../evil", "/tmp/evil", "a/b", "..", 5])
def test_trials_that_lead_elsewhere(tmp_path, name):
    (tmp_path / "experiment.yaml").write_text("grid: {lr0: [0.1]}")
    (tmp_path / "trials.json").write_text(json.dumps({"trials": [{"name": name, "settings": {}, "varied": {}}]}))
    with pytest.raises(UserError, match="cannot be read"):
        SweepFolder.open(tmp_path)
