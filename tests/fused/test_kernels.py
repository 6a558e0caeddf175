"""The kernels against plain torch, as Triton's interpreter runs them; `tests/gpu` has them on a GPU."""

import os
import sys

import pytest

from tests import programs

pytest.importorskip("triton")


@pytest.mark.slow
@pytest.mark.parametrize(
    "program", ["tests.fused.comparisons", "tests.loss.fused_comparisons", "tests.optim.update_comparisons"]
)
def test_kernels_compute_what_plain_torch_computes(program):
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = programs.run([sys.executable, "-m", program], cwd=programs.ROOT, env=environment)
    assert done.stdout == "same\n", done.stderr
