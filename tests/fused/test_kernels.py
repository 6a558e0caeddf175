"""The kernels against plain torch, as Triton's interpreter runs them; `tests/gpu` has them on a GPU."""

import os
import sys

import pytest

from tests import programs

pytest.importorskip("triton")


@pytest.mark.slow
@pytest.mark.parametrize(
    "program", ["tests.fused.comparisons", "tests.loss.fused_comparisons", "tests.detect.captured_comparisons"]
)
def test_kernels_compute_what_plain_torch_computes(program):
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = programs.run([sys.executable, "-m", program], cwd=programs.ROOT, env=environment)
    assert done.stdout == "same\n", done.stderr


@pytest.mark.slow
def test_convolutions_compile_and_read_sixteen_bytes_at_a_time():
    """For a GPU that need not be there. Of images all four numbers of a pixel are read at once."""
    script = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from yolofast.fused._conv_kernel import bias_act_kernel, conv_kernel, image_conv_kernel
from yolofast.fused.conv_act import _TILES
def ptx(kernel, options=None, **constants):
    names = kernel.arg_names
    kinds = {name: "*fp16" if name.endswith("_ptr") else "fp32" if name == "slope" else "i32" for name in names}
    whole = [name for name in names if name.endswith("_ptr") or name in ("c_in", "c_out", "pitch")]
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in whole}
    source = ASTSource(kernel, kinds | dict.fromkeys(constants, "constexpr"), constants, attributes)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["ptx"]
for tiles in _TILES:
    sizes = {"BLOCK_P": tiles.places, "BLOCK_OUT": tiles.outputs, "BLOCK_C": tiles.channels}
    code = ptx(conv_kernel, {"num_warps": tiles.warps, "num_stages": tiles.stages}, ACT=2, **sizes)
    assert "cp.async.cg.shared.global" in code and ", 0x10" in code and "st.global.v4.b32" in code, tiles
code = ptx(image_conv_kernel, K=3, C=4, ACT=2, BLOCK_P=128, BLOCK_OUT=32, NUMBERS=64)
assert "ld.global.v2.b32" in code and "st.global.v4.b32" in code
assert "ld.global.v4.b32" in ptx(bias_act_kernel, {"num_warps": 8}, ACT=1, BLOCK_P=128, BLOCK_OUT=64)
print("compiled")
"""
    done = programs.run([sys.executable, "-c", script], cwd=programs.ROOT, env={**os.environ, "TRITON_INTERPRET": "0"})
    assert done.stdout == "compiled\n", done.stderr
