"""What an exported file says of itself: sizes and numbers that would take any memory."""

import json

import pytest

from tests.export.test_onnx_nodes import FACTS
from tests.hostile.cost import refused
from yolofast.export.formats.facts import facts_of

SAID = FACTS.metadata()
LIES = {
    "batch": [10**9, -5, 10**400], "size": [[32_768, 32_768], [-1, 32]], "conf": [10**400], "iou": [[]],
    "strides": [[10**400], []], "names": [[], ["\ud800"]],
}  # fmt: skip


def test_what_is_written_is_read():
    assert facts_of(SAID, "x.onnx") == FACTS


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in LIES.items() for value in values])
def test_lies(name, value):
    with refused(f"its metadata are damaged: {name}"):
        facts_of({**SAID, name: json.dumps(value)}, "x.onnx")
