"""Head yaml: what is accepted, what is refused and in which words, and that files survive a round trip."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yolofast.errors import UserError
from yolofast.model.head_config import HeadConfig, HeadGroup, parse_head_config, read_head_config, write_head_config
from yolofast.resources import short_names

GOOD: dict[str, Any] = {
    "nc": 3,
    "heads": 2,
    "grouping": "by hand",
    "head_assignments": {
        "head_0": {"classes": [2, 0], "weight": 2, "name": "outer"},
        "head_1": {"classes": [1]},
    },
}


def changed(*keys: str, value: Any) -> dict[str, Any]:
    """GOOD with the entry at `keys` replaced."""
    mapping = copy.deepcopy(GOOD)
    place = mapping
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return mapping


def test_order_of_classes_is_kept_because_it_defines_local_ids():
    config = parse_head_config(GOOD)
    assert config.heads == (HeadGroup("outer", (2, 0), 2.0), HeadGroup("head_1", (1,), 1.0))
    assert (config.nc, config.grouping, config.full_head) == (3, "by hand", False)


def test_heads_follow_their_number_not_their_place_in_the_file():
    assignments = {f"head_{i}": {"classes": [i]} for i in reversed(range(11))}  # head_10 sorts before head_2 as text
    config = parse_head_config({"nc": 11, "heads": 11, "head_assignments": assignments})
    assert [head.classes for head in config.heads] == [(i,) for i in range(11)]


def test_informational_keys_are_allowed():
    mapping = changed("head_assignments", "head_0", "samples", value=12) | {"train": "x", "names": ["a", "b", "c"]}
    assert parse_head_config(mapping) == parse_head_config(GOOD)


HEAD = "head_assignments"


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (None, "mapping"),
        ([], "mapping"),
        (changed("nc", value=True), "nc must be"),  # bool is an int in Python, but not a count
        (changed("nc", value=0), "nc must be"),
        (changed("nc", value=3.0), "nc must be"),
        (changed("nc", value=10**12), "nc must be"),  # must not be used to build a range
        (changed("nc", value=4), "class 3 is in no head"),
        (changed("nc", value=2**30), "1073741821 classes missing"),
        (changed("nc", value=2), "class 2 is outside"),
        (changed("heads", value=3), "heads is 3 but head_assignments has 2"),
        (changed("heads", value=None), "heads must be"),
        (changed("full_head", value=1), "full_head"),
        (changed("grouping", value=4), "grouping must be text"),
        (changed(HEAD, value={}), "head_assignments"),
        (changed(HEAD, value=[[0, 1, 2]]), "head_assignments"),
        (changed(HEAD, value={"head_0": {"classes": [0]}, "head_2": {"classes": [1, 2]}}), "'head_2'"),
        (changed(HEAD, "head_1", value=[1]), "head_1 must be a mapping"),
        (changed(HEAD, "head_1", "classes", value=[]), "head_1: classes must be a non-empty list"),
        (changed(HEAD, "head_1", "classes", value=1), "head_1: classes must be a non-empty list"),
        (changed(HEAD, "head_1", "classes", value=[True]), "True is not a class number"),
        (changed(HEAD, "head_1", "classes", value=["1"]), "'1' is not a class number"),
        (changed(HEAD, "head_1", "classes", value=[-1]), "class -1 is outside"),
        (changed(HEAD, "head_1", "classes", value=[1, 0]), "class 0 is in two heads, head_0 and head_1"),
        (changed(HEAD, "head_1", "classes", value=[1, 1]), "class 1 is listed 2 times in head_1"),
        (changed(HEAD, "head_1", "weight", value=float("nan")), "weight"),
        (changed(HEAD, "head_1", "weight", value=float("inf")), "weight"),
        (changed(HEAD, "head_1", "weight", value=10**400), "weight"),  # float() of it would overflow
        (changed(HEAD, "head_1", "weight", value=0), "weight"),  # its classes would never be learnt
        (changed(HEAD, "head_1", "weight", value="1"), "weight"),
        (changed(HEAD, "head_1", "weight", value=True), "weight"),
        (changed(HEAD, "head_1", "name", value=None), "name must be text"),
        (changed(HEAD, "head_1", "name", value="\ud800"), "name must be text"),  # could not be written back
    ],
)
def test_faults_are_named(mapping, message):
    with pytest.raises(UserError, match=message):
        parse_head_config(mapping, "some.yaml")


def test_a_config_made_in_python_is_checked_too():
    with pytest.raises(UserError, match="class 1 is in no head"):
        HeadConfig(nc=2, grouping="x", heads=(HeadGroup("a", (0,)),))
    with pytest.raises(UserError, match="no head"):
        HeadConfig(nc=2, grouping="x", heads=())


def test_message_points_at_the_offending_head(tmp_path):
    path = tmp_path / "heads.yaml"
    path.write_text("nc: 2\nheads: 2\nhead_assignments:\n  head_0:\n    classes: [0]\n  head_1: {classes: [0, 1]}\n")
    with pytest.raises(UserError, match="class 0 is in two heads") as caught:
        read_head_config(path)
    assert (caught.value.where, caught.value.line) == (str(path), 6)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nc: [",
        "nc: 2\n\tx: 1",
        pytest.param("[" * 5000, marks=pytest.mark.slow),
        "&a [*a]",
        "--- 1\n--- 2",
        "!!python/object:os.system {}",
        "\0",
    ],
)
def test_malformed_yaml_is_a_user_error(tmp_path, text):
    path = tmp_path / "heads.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=r"heads\.yaml"):
        read_head_config(path)


def test_unknown_short_name_suggests():
    with pytest.raises(UserError, match="did you mean 'standard'"):
        read_head_config("standrad")


@pytest.mark.parametrize(
    ("name", "sizes", "weights"),
    [
        ("standard", [20, 20, 20, 20], [1.0, 1.2, 1.5, 1.1]),
        ("anti-confusion", [1, 26, 26, 27], [1.0] * 4),
        ("geometry", [20, 26, 22, 12], [1.0] * 4),  # of our 200 images, not the published 12/28/26/14
    ],
)
def test_packaged_groupings(name, sizes, weights):
    config = read_head_config(name)
    assert [len(head.classes) for head in config.heads] == sizes
    assert [head.weight for head in config.heads] == weights
    assert (config.nc, config.grouping, config.full_head) == (80, name, False)


def test_every_packaged_grouping_is_tested():
    assert short_names("heads") == ["anti-confusion", "geometry", "standard"]


@st.composite
def head_configs(draw):
    nc = draw(st.integers(1, 12))
    owner = draw(st.lists(st.integers(0, 3), min_size=nc, max_size=nc))
    classes = draw(st.permutations(range(nc)))
    groups = [tuple(c for c in classes if owner[c] == head) for head in sorted(set(owner))]
    weight = st.floats(1e-6, 1e4)
    heads = tuple(HeadGroup(draw(st.text(max_size=8)), group, draw(weight)) for group in groups)
    return HeadConfig(nc=nc, grouping=draw(st.text(max_size=20)), full_head=draw(st.booleans()), heads=heads)


@pytest.mark.slow
@settings(deadline=None)  # busy machines are slow, not wrong
@given(head_configs())
def test_to_dict_round_trips(config):
    assert parse_head_config(config.to_dict()) == config


@pytest.mark.slow
@settings(deadline=None)  # busy machines are slow, not wrong
@given(config=head_configs())
def test_file_round_trips(tmp_path_factory, config):
    path = tmp_path_factory.mktemp("heads") / "heads.yaml"
    write_head_config(config, path)
    assert read_head_config(path) == config
    assert [entry.name for entry in path.parent.iterdir()] == ["heads.yaml"]  # no temporary file left


def test_written_file_is_readable_by_people(tmp_path):
    path = tmp_path / "heads.yaml"
    write_head_config(parse_head_config(GOOD), path)
    assert "    classes: [2, 0]\n" in path.read_text()


def test_writing_into_a_missing_folder_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match="cannot be written"):
        write_head_config(parse_head_config(GOOD), tmp_path / "absent" / "heads.yaml")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@settings(deadline=None)  # busy machines are slow, not wrong
@given(st.sampled_from([(k,) for k in GOOD] + [(HEAD, "head_0"), (HEAD, "head_0", "classes")]), values)
def test_any_value_anywhere_is_accepted_or_a_user_error(keys, value):
    try:
        config = parse_head_config(changed(*keys, value=value))
    except UserError:
        return
    assert parse_head_config(config.to_dict()) == config


@pytest.mark.parametrize("key", ["class_names", "num_classes", "names", "weights", "description", "class"])
def test_keys_that_only_inform_are_allowed(key):
    head = {**GOOD["head_assignments"]["head_0"], key: "anything"}
    informed = {**GOOD, "head_assignments": {**GOOD["head_assignments"], "head_0": head}}
    assert parse_head_config(informed) == parse_head_config(GOOD)


@pytest.mark.parametrize(("slip", "meant"), [("wieght", "weight"), ("clases", None), ("calsses", "classes")])
def test_a_slip_of_the_keyboard_is_named(slip, meant):
    head = {k: v for k, v in GOOD["head_assignments"]["head_0"].items() if k != meant} | {slip: 1.0}
    config = {**GOOD, "head_assignments": {**GOOD["head_assignments"], "head_0": head}}
    if meant is None:  # not the letters of a known key: taken for information
        parse_head_config(config)
    else:
        with pytest.raises(UserError, match=f"did you mean '{meant}'"):
            parse_head_config(config)
