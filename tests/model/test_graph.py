"""Model files: every mistake gets one message with the file, the line, the layer, the value and the fix."""

import copy

import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.model.small import GROUPS, SMALL, small_cfg
from yolofast import UserError, build_model
from yolofast.model.heads import HEADS
from yolofast.model.module_table import BLOCKS
from yolofast.resources import ROOT

TINY = (ROOT / "cfg/training/yolov7-tiny.yaml").read_text()


def on_meta(cfg, **kwargs):
    with torch.device("meta"):
        return build_model(cfg, **kwargs)


def changed(layer, row):
    """The small network with one layer replaced."""
    cfg = copy.deepcopy(SMALL)
    section, position = ("backbone", layer) if layer < 4 else ("head", layer - 4)
    cfg[section][position] = row
    return cfg


MISTAKES = {
    "unknown module": (changed(1, [-1, 1, "Cnv", [16]]), "layer 1 (Cnv): unknown module, did you mean 'Conv'?"),
    "evaluated string": (changed(1, [-1, 1, "__import__('os').system('x')", []]), "unknown module"),
    "too many arguments": (changed(2, [-1, 1, "MP", [2, 2]]), "layer 2 (MP): takes 0 to 1 arguments, got 2"),
    "too few arguments": (changed(1, [-1, 1, "Conv", []]), "takes 1 to 6 arguments, got 0"),
    "bad argument": (changed(1, [-1, 1, "Conv", [16, "three"]]), "argument k is 'three'"),
    "channels not positive": (changed(1, [-1, 1, "Conv", [0]]), "argument c2 is 0"),
    "boolean channels": (changed(1, [-1, 1, "Conv", [True]]), "argument c2 is True"),
    "evaluated activation": (
        changed(1, [-1, 1, "Conv", [16, 3, 2, None, 1, "nn.LeakyReLU(__import__('os').getpid())"]]),
        "argument act is",
    ),
    "unlisted activation": (changed(1, [-1, 1, "Conv", [16, 3, 2, None, 1, "nn.Linear(3, 3)"]]), "argument act is"),
    "groups do not divide": (changed(1, [-1, 1, "Conv", [16, 3, 2, None, 3]]), "3 groups do not divide 16 input"),
    "window does not fit": (changed(1, [-1, 1, "Conv", [16, 3, 2, 0]]), "does not scale the map by 1/2"),
    "from looks ahead": (changed(1, [2, 1, "Conv", [16]]), "layer 1: from 2 is out of range"),
    "from before the image": (changed(1, [-5, 1, "Conv", [16]]), "layer 1: from -5 is out of range"),
    "from is text": (changed(1, ["x", 1, "Conv", [16]]), "layer 1: from is 'x'"),
    "one input wanted": (changed(3, [[0, 1], 1, "Conv", [32, 3, 2]]), "takes one input, got 2"),
    "strides differ": (changed(3, [[0, 1], 1, "Concat", [1]]), "layer 3 (Concat): joins maps of strides 2, 4"),
    "channels differ": (
        {**SMALL, "backbone": [*SMALL["backbone"], [-1, 1, "Conv", [24, 1]], [[-1, -2], 1, "Shortcut", [1]]]},
        "layer 5 (Shortcut): sums maps of 24, 32 channels",
    ),
    "not a layer": (changed(1, [-1, 1, "Conv"]), "layer 1: [-1, 1, 'Conv'] is not a layer"),
    "repeats": (changed(1, [-1, 0, "Conv", [16]]), "layer 1: repeats is 0"),
    "repeated join": (changed(3, [[-1, -1], 2, "Concat", [1]]), "cannot be repeated"),
    "no head": (changed(6, [[4, 5], 1, "Concat", [1]]), "the last layer is not a detection head"),
    "head too early": (changed(5, [[2, 3], 1, "Detect", ["nc", "anchors"]]), "before the last layer"),
    "head arguments": (changed(6, [[4, 5], 1, "IDetect", ["nc"]]), "takes [nc, anchors]"),
    "head for other classes": (changed(6, [[4, 5], 1, "IDetect", [80, "anchors"]]), "80, but nc is 3"),
    "levels": (changed(6, [[4], 1, "IDetect", ["nc", "anchors"]]), "1 levels, but anchors for 2"),
    "odd aux inputs": (changed(6, [[3, 4, 5], 1, "IAuxDetect", ["nc", "anchors"]]), "has 3 inputs"),
    "aux strides": (changed(6, [[4, 5, 5, 4], 1, "IAuxDetect", ["nc", "anchors"]]), "other strides than lead"),
    "anchors missing": ({k: v for k, v in SMALL.items() if k != "anchors"}, "anchors is missing"),
    "anchors odd": ({**SMALL, "anchors": [[1, 2, 3], [1, 2, 3]]}, "anchors of level 0 are [1, 2, 3]"),
    "anchors negative": ({**SMALL, "anchors": [[1, 2], [1, -2]]}, "anchors of level 1 are [1, -2]"),
    "nc missing": ({k: v for k, v in SMALL.items() if k != "nc"}, "nc is missing"),
    "nc zero": ({**SMALL, "nc": 0}, "nc is 0"),
    "names": ({**SMALL, "names": ["a", "b"]}, "names has 2 entries, but nc is 3"),
    "width": ({**SMALL, "width_multiple": "wide"}, "width_multiple is 'wide'"),
    "backbone": ({**SMALL, "backbone": None}, "backbone is None"),
    "too large": (changed(1, [-1, 1000, "Conv", [65536, 3]]), "more than 2,000,000,000 parameters"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_named(name):
    cfg, message = MISTAKES[name]
    with pytest.raises(UserError) as caught:
        build_model(cfg)
    assert message in str(caught.value)
    assert caught.value.fix, "every message says what to do"


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_a_file_carry_its_name_and_line(name, tmp_path):
    cfg, _ = MISTAKES[name]
    path = tmp_path / "model.yaml"
    text = "\n".join(
        f"{key}:\n"
        + "\n".join(f"  - {yaml.safe_dump(row, default_flow_style=True, width=999).strip()}" for row in value)
        if key in ("backbone", "head") and value
        else f"{key}: {yaml.safe_dump(value, default_flow_style=True, width=999).removesuffix('...' + chr(10)).strip()}"
        for key, value in cfg.items()
    )
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        build_model(path)
    assert caught.value.where == str(path)
    assert caught.value.line is not None
    if "layer 1 " in caught.value.what or "layer 1:" in caught.value.what:
        lines = text.splitlines()
        assert caught.value.line == lines.index("backbone:") + 1 + 2


def test_unknown_keys_are_refused_in_files_and_ignored_in_graphs_kept_in_checkpoints(tmp_path):
    path = tmp_path / "model.yaml"
    path.write_text(TINY.replace("width_multiple", "width_mutliple"))
    with pytest.raises(UserError, match="unknown key 'width_mutliple', did you mean 'width_multiple'") as caught:
        build_model(path)
    assert caught.value.line == TINY.splitlines().index("width_multiple: 1.0") + 1
    assert build_model({**SMALL, "loss_ota": 1}).nc == 3


def test_line_of_a_layer_in_a_published_file(tmp_path):
    path = tmp_path / "mine.yaml"
    lines = TINY.splitlines()
    line = next(i for i, text in enumerate(lines) if text.rstrip().endswith("# 25"))
    lines[line] = "  - [-1, 1, Conv, [256, 3, 1, None, 1, nn.Leaky(0.1)]]"
    path.write_text("\n".join(lines))
    with pytest.raises(UserError, match="layer 25") as caught:
        build_model(path)
    assert caught.value.line == line + 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"nc: [1, 2", "is not valid YAML"),
        (b"- 1\n- 2\n", "must be a mapping"),
        (b"", "must be a mapping"),
        (b"nc: \xff\xfe", "is not UTF-8 text"),
        (b"nc: &x [*x]\n", "nc is"),
        (b"!!python/object/apply:os.system ['true']", "is not valid YAML"),
        (b"a: " + b"[" * 5000, "nested too deeply"),
        (b"nc: 0x" + b"f" * 5000, "holds a value YAML cannot build: a number of thousands of digits"),
        (b"nc: !!int ''", "holds a value YAML cannot build"),
        (b"nc: 3\nnc: 4\n", "the key 'nc' stands twice"),
        (b"\x00", "is not valid YAML"),
    ],
)
def test_files_that_are_not_model_files(tmp_path, content, message):
    path = tmp_path / "model.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        build_model(path)
    assert caught.value.where == str(path)
    assert str(caught.value).count("fix:") == 1


@pytest.mark.parametrize("name", ["yolov7-tny", "cfg/training/yolov8.yaml", "", "x" * 5000, "a\0b", "."])
def test_files_that_do_not_exist(name):
    with pytest.raises(UserError) as caught:
        build_model(name)
    assert caught.value.fix


def test_nearest_name_is_offered():
    with pytest.raises(UserError, match="did you mean 'yolov7-tiny'"):
        build_model("yolov7-tny")


@pytest.mark.parametrize("nc", [0, -1, 2.5, "80", True])
def test_wrong_number_of_classes(nc):
    with pytest.raises(UserError, match="nc is"):
        build_model("yolov7-tiny", nc=nc)


def test_nc_replaces_the_files_and_drops_its_names():
    model = build_model({**SMALL, "names": ["a", "b", "c"]}, nc=2)
    assert (model.nc, model.names) == (2, ("0", "1"))
    assert build_model({**SMALL, "names": {0: "a", 1: "b", 2: "c"}}).names == ("a", "b", "c")


def test_an_activation_that_turns_negative_around_trains():
    cfg = changed(1, [-1, 1, "Conv", [16, 3, 2, None, 1, "nn.LeakyReLU(-0.1)"]])
    model = build_model(cfg)
    sum(m.sum() for m in model(torch.rand(2, 3, 64, 64))).backward()
    assert model.model[1].conv.weight.grad.isfinite().all()


def test_head_config_must_fit_the_graph():
    with pytest.raises(UserError, match="ends in IDetect"):
        build_model(SMALL, head_config=GROUPS)
    with pytest.raises(UserError, match="needs to know which head owns which of the 3 classes"):
        build_model(small_cfg("MultiHeadDetect"))
    with pytest.raises(UserError, match="head config is for 80 classes, the model for 3"):
        build_model(small_cfg("MultiHeadDetect"), head_config="standard")


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 10),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["None", "nc", "anchors", "nearest", "nn.SiLU()", "nn.LeakyReLU(0.1)", "nn.LeakyReLU(x)"]),
)
arguments = st.lists(st.one_of(scalars, st.sampled_from([1, 2, 3, 8, 16, 64])), max_size=7)
modules = st.one_of(st.sampled_from([*BLOCKS, *HEADS]), scalars)
sources = st.one_of(st.integers(-4, 8), st.lists(st.integers(-3, 8), max_size=4), scalars)
layers = st.one_of(st.tuples(sources, st.one_of(st.integers(1, 3), scalars), modules, arguments).map(list), scalars)
graphs = st.fixed_dictionaries(
    {"nc": st.one_of(st.just(3), scalars), "anchors": st.one_of(st.just(2), st.just([[1, 2], [3, 4]]), scalars)},
    optional={
        "backbone": st.one_of(st.lists(layers, max_size=6), scalars),
        "head": st.one_of(st.lists(layers, max_size=4), scalars),
        "width_multiple": scalars,
        "depth_multiple": scalars,
        "names": st.one_of(st.lists(scalars, max_size=4), scalars),
    },
)


@pytest.mark.slow
@given(graphs)
@settings(max_examples=80, deadline=None)
def test_any_mapping_builds_or_is_refused(cfg):
    try:
        on_meta(cfg)
    except UserError as error:
        assert len(str(error)) < 2000


@pytest.mark.slow
@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_damaged_layer_builds_or_is_refused(data):
    """Close to valid: one layer of a working network replaced, so that the deeper checks are reached."""
    cfg = changed(data.draw(st.integers(0, 6)), data.draw(layers))
    try:
        on_meta(cfg)
    except UserError as error:
        assert error.fix


@pytest.mark.slow
@given(st.integers(0, len(TINY) - 1), st.text(max_size=3), st.integers(0, 12))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_a_damaged_file_builds_or_is_refused(tmp_path, position, insert, delete):
    path = tmp_path / "model.yaml"
    path.write_text(TINY[:position] + insert + TINY[position + delete :], encoding="utf-8", errors="replace")
    try:
        on_meta(path)
    except UserError as error:
        assert error.where == str(path)
