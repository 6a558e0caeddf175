import pytest

from yolofast import build_model
from yolofast.optim.optimizer import parameter_groups


@pytest.mark.slow
def test_tiny_has_the_published_groups():
    scales, weights, biases = parameter_groups(build_model("yolov7-tiny"), 0.0005)
    assert [len(group["params"]) for group in (scales, weights, biases)] == [61, 58, 58]
    assert [group["weight_decay"] for group in (scales, weights, biases)] == [0.0, 0.0005, 0.0]


@pytest.mark.slow
def test_every_parameter_is_in_one_group_unless_frozen():
    model = build_model("yolov7-tiny-1b4h")
    for parameter in model.model[0].parameters():
        parameter.requires_grad_(False)
    grouped = [p for group in parameter_groups(model, 0.1) for p in group["params"]]
    assert len(grouped) == len({id(p) for p in grouped})
    assert {id(p) for p in grouped} == {id(p) for p in model.parameters() if p.requires_grad}
