"""Which network weights belong to is asked in one place, whoever reads them."""

import pytest
import torch

from yolofast import build_model
from yolofast.detect.networks import load_model, read_trained, starting_network
from yolofast.errors import UserError


@pytest.mark.slow
@pytest.mark.parametrize(
    "read",
    [
        lambda file: load_model(None, file, None, None, transfer=True),
        lambda file: starting_network("", file, 3, "", lambda text: None),
        read_trained,
    ],
    ids=["commands", "training", "detecting"],
)
def test_weights_that_do_not_say_their_network(tmp_path, read):
    file = str(tmp_path / "plain.pt")
    torch.save(build_model("yolov7-tiny", nc=3).state_dict(), file)
    with pytest.raises(UserError, match="a state dict does not say which network it belongs to") as error:
        read(file)
    assert "--cfg yolov7-tiny" in str(error.value)
