"""The kernels against plain torch, as Triton's interpreter runs them; `tests/gpu` has them on a GPU."""

import os
import sys

import pytest

from tests import programs

pytest.importorskip("triton")


@pytest.mark.slow
def test_kernels_compute_what_plain_torch_computes():
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = programs.run([sys.executable, "-m", "tests.motion.kernels"], cwd=programs.ROOT, env=environment)
    assert done.stdout == "same\n", done.stderr
