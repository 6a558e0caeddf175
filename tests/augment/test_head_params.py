import numpy as np
import pytest

from tests.augment.made_up import make_index
from yolofast.augment.by_head import read_head_policy
from yolofast.errors import UserError

INDEX = make_index([(64, 64)] * 2, [[(0.5, 0.5, 0.2, 0.2)] * 3, [(0.5, 0.5, 0.2, 0.2)]], labels=[0, 3, 2, 1], classes=4)
HEADS = ((0,), (1,), (2,), (3,))
TWO = "head_0: {degrees: 1, flipud: 0, fliplr: 0.5, shear: 0, mixup: 0.1}\nhead_1: {%s}\n"


def test_the_packaged_values():
    policy = read_head_policy("data/hyp.head_params.yaml", INDEX, HEADS, faithful=True)
    assert policy.degrees.tolist() == [2.4246, 0.0796, 0.8416, 0.0677]
    assert policy.flipud.tolist() == [0.0114, 0.0770, 0.0258, 0.0395]
    assert policy.fliplr.tolist() == [0.3877, 0.2581, 0.2318, 0.1938]
    assert policy.shear.tolist() == [0.1397, 1.6101, 0.1311, 3.0063]
    assert policy.mixup.tolist() == [0.0316, 0.1749, 0.0948, 0.0127]
    assert policy.faithful
    assert np.array_equal(policy.counts, [[1, 0, 1, 1], [0, 1, 0, 0]])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("degrees: 1, flipud: 0, fliplr: 0.5, shear: 0", ":2: head_1 lacks mixup"),
        ("degrees: 1, flipud: 2, fliplr: 0.5, shear: 0, mixup: 0", ":2: flipud of head_1 is 2"),
        ("degrees: a lot, flipud: 0, fliplr: 0.5, shear: 0, mixup: 0", ":2: degrees of head_1 is 'a lot'"),
        ("degres: 1, flipud: 0, fliplr: 0.5, shear: 0, mixup: 0", "did you mean 'degrees'"),
    ],
)
def test_mistakes(tmp_path, values, message):
    (tmp_path / "heads.yaml").write_text(TWO % values)
    with pytest.raises(UserError) as error:
        read_head_policy(tmp_path / "heads.yaml", INDEX, ((0, 1), (2, 3)), faithful=False)
    assert message in str(error.value) and "heads.yaml" in str(error.value)


def test_every_head_has_its_values(tmp_path):
    with pytest.raises(UserError, match="there is no 'head_3'"):
        read_head_policy("data/hyp.head_params.yaml", INDEX, HEADS[:3], faithful=False)
    with pytest.raises(UserError, match="head_4 is missing"):
        read_head_policy("data/hyp.head_params.yaml", INDEX, (*HEADS, ()), faithful=False)
