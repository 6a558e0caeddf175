"""The kernels against plain torch, as Triton's interpreter runs them; `tests/gpu` has them on a GPU. And compiled."""

import json
import os
import sys

import pytest

from tests import programs

pytest.importorskip("triton")
INTERPRETED = {**os.environ, "TRITON_INTERPRET": "1"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "kernel"),
    [
        ("tests.fused.comparisons", "norm_act_back_kernel"),
        ("tests.fused.joint_comparisons", "double_back_kernel"),
        ("tests.loss.fused_comparisons", "gradient_kernel"),
        ("tests.optim.update_comparisons", "sgd_kernel"),
        ("tests.detect.captured_comparisons", "letterbox_kernel"),
        ("tests.motion.kernels", "scan_back_kernel"),
    ],
)
def test_kernels_compute_what_plain_torch_computes_and_old_and_new_cards_take_them(program, kernel, tmp_path):
    """Compute capabilities 7.5 (T4) and 9.0 (H200)."""
    tool, notes = [sys.executable, "-m", "tests.kernel_launches"], str(tmp_path / "notes")
    done = programs.run([*tool, "note", notes, program], cwd=programs.ROOT, env=INTERPRETED)
    assert done.stdout == "same\n", done.stderr
    done = programs.run([*tool, "compile", notes, "75", "90"], cwd=programs.ROOT)
    assert json.loads(done.stdout)[kernel] >= 1, done.stderr
