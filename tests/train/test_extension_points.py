"""What the tables promise: an entry made here, in a test, trains three steps by the ordinary command."""

import csv
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.train.small_run import flags
from yolofast.assign.tal import by_tal
from yolofast.cli import main
from yolofast.extensions import ASSIGNERS, FAMILIES, OPTIMIZERS, Assigner, FamilyPlaces, found
from yolofast.model.contract import Layer, ModelFamily, Network
from yolofast.optim.sgd import Sgd
from yolofast.structures import HeadLayout, LossTerms
from yolofast.train.families.yolov7 import YoloV7Family, YoloV7Rules
from yolofast.train.loggers.delivery import LOGGERS, LoggerEntry
from yolofast.train.losses.yolox_criterion import YoloXCriterion

pytestmark = pytest.mark.slow

STEPS = 3
SEEN: list[str] = []
"""What was called, and how often."""


@pytest.fixture(autouse=True)
def nothing_seen():
    SEEN.clear()


def train(folder, *more, **changes) -> list[dict[str, str]]:
    """Three batches of eight; the rows of results.csv."""
    assert main(["train", *flags(folder, epochs=1, **changes), *more]) == 0
    return list(csv.DictReader((folder / "runs" / "exp" / "results.csv").open()))


def batches_of(folder) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "runs" / "exp" / "batches.csv").open()))


class Blot(Network):
    """A network of two layers that sees blots: a map of stride 8, one point per cell."""

    family = "blot"
    numbered = False

    def __init__(self, nc: int) -> None:
        super().__init__()
        self.nc, self.names = nc, tuple(map(str, range(nc)))
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 8, stride=8), nn.BatchNorm2d(8), nn.SiLU())
        self.predict = nn.Conv2d(8, 5 + nc, 1)
        self.register_buffer("cells", torch.full((1, 1, 2), 8.0))

    @property
    def layers(self) -> tuple[Layer, ...]:
        return Layer("backbone", "stem", self.stem), Layer("head", "predict", self.predict)

    @property
    def layout(self) -> HeadLayout:
        return HeadLayout(kind="point", nc=self.nc, strides=(8,), anchors_per_cell=1)

    @property
    def anchors_px(self) -> Tensor:
        return self.cells

    @property
    def graph_yaml(self):
        return {"family": "blot", "nc": self.nc}

    def forward(self, images: Tensor) -> list[Tensor]:
        return [self.predict(self.stem(images)).permute(0, 2, 3, 1)[:, None]]


class BlotLoss:
    """That of YOLOX and a term of its own: raw outputs shall stay small."""

    def __init__(self, model: Blot) -> None:
        self._own = YoloXCriterion(model)

    def __call__(self, raw, targets) -> LossTerms:
        terms, ink = self._own(raw, targets), raw[0].square().mean()
        parts = {name: terms.parts[name] for name in ("box", "obj", "cls")}
        return LossTerms(terms.total + ink, {**parts, "ink": ink.detach()})


class BlotLosses:
    def __init__(self, model: Blot) -> None:
        self._loss = BlotLoss(model)

    def training(self, epoch: int) -> BlotLoss:
        return self._loss

    validation = training

    def state_dict(self):
        return {}

    def load_state_dict(self, state) -> None: ...


class BlotRules(YoloV7Rules):
    terms = ("box", "obj", "cls", "ink")
    always_shuffled = True

    def losses(self) -> BlotLosses:
        return BlotLosses(self._model)

    def loss_name(self, epoch: int) -> str:
        return "blots"


class BlotFamily(YoloV7Family):
    name = "blot"

    def rules(self, config, hyp, model) -> BlotRules:
        return BlotRules(config, hyp, model)


BLOT = ModelFamily(title="Blot", build=lambda file, nc: Blot(nc or file.values["nc"]), graph_of=lambda tensors: None)
TRAINING = BlotFamily()


@pytest.fixture
def blot(tmp_path, monkeypatch):
    """The name of a model file."""
    monkeypatch.setitem(FAMILIES, "blot", FamilyPlaces(network=f"{__name__}:BLOT", training=__name__))
    (tmp_path / "blot.yaml").write_text("family: blot\nnc: 3\n")
    return tmp_path / "blot.yaml"


@pytest.mark.slow
def test_a_family_trains_and_its_own_term_of_the_loss_is_written_down(tmp_path, blot, capsys):
    (row,) = train(tmp_path, cfg=blot)
    assert float(row["train/ink_loss"]) > 0 and float(row["val/ink_loss"]) > 0
    assert "train/l1_loss" not in row, "that is YOLOX's"
    batches = batches_of(tmp_path)
    assert len(batches) == STEPS
    terms = sum(float(row[f"train/{name}_loss"]) for name in BlotRules.terms)
    assert sum(float(batch["total"]) for batch in batches) / STEPS == pytest.approx(terms, rel=1e-4)
    assert " ink " in capsys.readouterr().out, "in the lines of epochs too"
    state = torch.load(tmp_path / "runs" / "exp" / "weights" / "last.pt", weights_only=True)
    assert {name.split(".")[0] for name in state["model"]} == {"stem", "predict", "cells"}


def test_a_run_of_a_family_is_explained(tmp_path, blot, capsys):
    assert main(["train", *flags(tmp_path, epochs=1, cfg=blot), "--explain"]) == 0
    assert "blots" in capsys.readouterr().out


def test_a_family_that_is_in_no_table_is_refused(tmp_path, capsys):
    (tmp_path / "blot.yaml").write_text("family: blot\nnc: 3\n")
    assert main(["train", *flags(tmp_path, epochs=1, cfg=tmp_path / "blot.yaml")]) == 2
    assert "family is 'blot'" in capsys.readouterr().err


def by_tal_and_seen(raw, targets, head):
    SEEN.append("assigned")
    return by_tal(raw, targets, head)


@pytest.mark.slow
@pytest.mark.parametrize("cfg", ["mini", "yolox-nano"])
def test_an_assigner_serves_every_family(tmp_path, monkeypatch, cfg):
    own = Assigner(assign=f"{__name__}:by_tal_and_seen", anchors=True, points=True)
    monkeypatch.setitem(ASSIGNERS, "seen", own)
    train(tmp_path, "--assigner", "seen", cfg=cfg)
    assert SEEN.count("assigned") >= STEPS
    assert [batch["assigner"] for batch in batches_of(tmp_path)] == ["seen"] * STEPS


class CountedSgd(Sgd):
    def step(self) -> None:
        SEEN.append("moved")
        super().step()


@pytest.mark.slow
def test_an_optimizer_moves_the_weights(tmp_path, monkeypatch):
    monkeypatch.setitem(OPTIMIZERS, "counted", f"{__name__}:CountedSgd")
    (tmp_path / "hyp.yaml").write_text("nbs: 8\n")  # every batch makes an update
    train(tmp_path, "--optimizer", "counted", hyp=tmp_path / "hyp.yaml")
    assert SEEN == ["moved"] * STEPS


class ListLogger:
    title = "list"

    def start(self, run) -> None:
        SEEN.append("start")

    def scalars(self, epoch, values) -> None:
        SEEN.append("mAP" if "metrics/mAP50-95(B)" in values else "no mAP")

    def picture(self, epoch, path) -> None: ...

    def finish(self, complete) -> None:
        SEEN.append(f"complete: {complete}")


@pytest.mark.slow
def test_a_logger_hears_of_a_run(tmp_path, monkeypatch):
    monkeypatch.setitem(LOGGERS, "list", LoggerEntry(make=lambda request: ListLogger(), package="json"))
    train(tmp_path)
    assert SEEN == ["start", "mAP", "complete: True"]


@pytest.mark.parametrize("flag", ["--assigner", "--optimizer"])
def test_what_is_in_no_table_is_no_choice(tmp_path, capsys, flag):
    with pytest.raises(SystemExit):
        main(["train", *flags(tmp_path), flag, "seen"])
    assert "'seen'" in capsys.readouterr().err


def test_every_entry_leads_to_code():
    places = [*(entry.assign for entry in ASSIGNERS.values()), *OPTIMIZERS.values()]
    assert all(isinstance(found(place), Callable) for place in places)
    for entry in ASSIGNERS.values():
        assert {entry.counterpart, entry.cheaper} <= {"", *ASSIGNERS}
