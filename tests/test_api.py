"""Training and evaluating from Python; the examples of docs/api.md run as printed."""

import inspect
import pickle
import re
from pathlib import Path

import cv2
import numpy as np
import pytest

import yolofast
from tests.detect.seeing import picture, save_seeing, save_video
from yolofast import Detector, UserError
from yolofast.dataset.shapes.made_once import make_shapes
from yolofast.dataset.split import read_split
from yolofast.runs.reader import RunFolder

PAGE = Path(__file__).parents[1] / "docs" / "api.md"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the files the examples name."""
    folder = tmp_path_factory.mktemp("here") / "place"
    data = make_shapes(folder, n=16)
    assert data == folder / "data.yaml"
    save_seeing(folder / "best.pt", names=read_split(data, "val").names, img_size=64)
    cv2.imwrite(str(folder / "street.jpg"), picture(0))
    save_video(folder / "traffic.mp4", frames=11)
    return folder


@pytest.mark.slow
def test_the_examples_run_as_printed(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    monkeypatch.setenv("YOLOFAST_CACHE", str(place / "cache"))
    section = PAGE.read_text(encoding="utf-8").split("### `yolofast.Detector(")[1].split("\n### `yolofast.Targets")[0]
    examples = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert len(examples) == 6
    names = {}
    exec(compile("\n".join(examples), str(PAGE), "exec"), names)
    numbers = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.split(" ")[0].isdecimal()]
    assert numbers == ["0", "5", "10"]  # every fifth of eleven pictures
    assert (place / "found.jpg").exists()
    run, result = names["run"], names["result"]
    assert (run.folder / "weights" / "best.pt").exists() and 0 <= run.map <= run.map50 <= 1
    assert run.detector.size == 64 and run.detector.names == names["detector"].names
    assert result.metrics.images == 3 and (result.folder / "PR_curve.png").exists()
    learnt, before = (one.model.state_dict() for one in (run.detector, names["detector"]))
    assert any(not np.array_equal(learnt[name], before[name]) for name in before)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epohcs": 1}, "did you mean 'epochs'"),
        ({"weights": "x.pt"}, "belongs to the detector"),
        ({"epochs": 0}, "^epochs is 0"),
    ],
)
def test_settings_that_are_refused(place, settings, message):
    with pytest.raises(UserError, match=message):
        Detector(place / "best.pt", device="cpu").train(place / "data.yaml", **settings)


def test_validation_refuses_unknown_settings_too(place):
    detector = Detector(place / "best.pt", device="cpu")
    with pytest.raises(UserError, match="did you mean 'batch"):
        detector.val(place / "data.yaml", batchsize=2)
    with pytest.raises(UserError, match="use the command"):
        detector.val(place / "data.yaml", task="speed")


@pytest.mark.parametrize(
    ("settings", "what", "fix"),
    [
        ({"quad": True, "batch_size": 6}, "batch_size is 6, but quad joins 4 images", "batch_size=8"),
        ({"batch_size": -1}, "batch_size=-1 measures the memory", "give a number, such as batch_size=16"),
        ({"cache": "gpu"}, 'cache="gpu" needs a GPU', "leave it at auto"),
        ({"half": True}, 'precision="fp16" needs a GPU', "leave it at auto"),
        ({"heads": 3}, "heads=3 needs to know", "head_config"),
        ({"lr_mult_head": 3.0}, "lr_mult_head changes a value of stage", 'add stage="stage1_neck_tune"'),
        ({"evolve": True}, "^evolve: one run trains", "sweep FILE"),
    ],
)
def test_messages_name_no_flags(place, settings, what, fix):
    with pytest.raises(UserError, match=what) as raised:
        Detector(place / "best.pt", device="cpu").train(place / "data.yaml", **settings)
    assert fix in raised.value.fix and "--" not in str(raised.value)


@pytest.mark.slow
def test_messages_of_other_methods_and_functions(place, tmp_path):
    detector = Detector(place / "best.pt", device="cpu")
    save_seeing(tmp_path / "other.pt")
    calls = [
        (lambda: Detector(place / "best.pt", device="7"), 'device="cpu"'),
        (lambda: Detector(place / "best.pt", size=(64, 96)), "size=96"),
        (lambda: Detector(place / "best.pt", precision="fp99"), "auto, bf16"),
        (lambda: Detector(place / "best.pt", precision="fp16", device="cpu"), 'precision="fp32"'),
        (lambda: Detector(tmp_path / "other.pt").val(place / "data.yaml"), "single_cls=True"),
        (lambda: detector.predict(""), "name an image"),
        (lambda: detector.predict(picture(0), classes=3.5), "the network knows"),
        (lambda: list(detector.stream(place / "traffic.mp4", every=0)), "1 uses all frames"),
        (lambda: detector.track(place / "traffic.mp4", frame_rate="x"), "above 0"),
        (lambda: yolofast.load_weights(yolofast.build_model("mini", nc=3), tmp_path / "other.pt"), "transfer=True"),
    ]
    for call, fix in calls:
        with pytest.raises(UserError) as raised:
            call()
        assert fix in raised.value.fix and "--" not in str(raised.value)


def test_commands_to_type_keep_their_flags(place):
    with pytest.raises(UserError, match="val --task speed"):
        Detector(place / "best.pt", device="cpu").val(place / "data.yaml", task="speed")


def test_functions_are_what_they_were():
    assert inspect.signature(yolofast.build_model).parameters.keys() == {"cfg", "nc", "head_config"}
    assert "conf" in inspect.signature(Detector.predict).parameters and Detector.predict.__doc__
    assert pickle.loads(pickle.dumps(yolofast.build_model)) is yolofast.build_model


def test_a_network_that_is_only_named(place):
    detector = Detector(cfg="mini", size=64)
    assert repr(detector) == "<Detector mini, to be trained>" and detector.size == 64
    for call in (
        lambda: detector.predict(picture(0)),
        lambda: detector.val(place / "data.yaml"),
        lambda: detector.model,
    ):
        with pytest.raises(UserError, match="has no weights"):
            call()
    for wrong, message in (({}, "neither weights nor a network"), ({"cfg": "minni"}, "did you mean 'mini'")):
        with pytest.raises(UserError, match=message):
            Detector(**wrong)


def test_settings_that_detecting_does_not_have(place):
    """Those of other programs are answered with ours, and nothing is Python's own words."""
    detector = Detector(place / "best.pt", device="cpu")
    for call in (detector, detector.predict, detector.stream):
        for wrong, message in (("max_det", "did you mean 'most'"), ("confidence", "it takes .*conf, iou, classes")):
            with pytest.raises(UserError, match=message):
                call(picture(0), **{wrong: 1})
    with pytest.raises(UserError, match="did you mean 'weights'"):
        Detector(weigths="best.pt")


def test_calls_that_do_not_fit(place):
    """What is missing, or has no name, is said in the same words as all else."""
    detector = Detector(place / "best.pt", device="cpu")
    for call, what, fix in (
        (lambda: detector.val(datta="data.yaml"), "missing a required argument: 'data'", "data=…, setting=value"),
        (lambda: yolofast.train("data.yaml"), "too many positional arguments", "by name: on_epoch=…, setting=value"),
        (lambda: detector.predict(), "missing a required argument: 'pictures'", "pictures=…, channels=…"),
        (lambda: Detector.train(data="data.yaml"), "is called without a detector", "make one first"),
    ):
        with pytest.raises(UserError, match=what) as raised:
            call()
        assert fix in raised.value.fix


@pytest.mark.slow
def test_training_from_zero(place, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.setenv("YOLOFAST_CACHE", str(place / "cache"))
    detector = Detector(cfg="mini", size=64, device="cpu")
    run = detector.train(place / "data.yaml", epochs=1, batch_size=8, workers=0, plots=False, project=place / "zero")
    assert run.detector.size == 64 and len(run.detector.names) == 8 and not detector.weights
    assert repr(run.detector).endswith("best.pt: mini, 8 classes, 64 pixels, cpu>")
    assert RunFolder(run.folder).args["weights"] == ""


def test_several_networks_cannot_be_trained(place):
    with pytest.raises(UserError, match="cannot be trained together"):
        Detector([place / "best.pt", place / "best.pt"], device="cpu").train(place / "data.yaml")
