"""Greedy suppression against one box at a time, in plain torch and as the Triton kernel run by its interpreter."""

import os
import sys

import pytest

from tests import programs
from tests.evaluate.greedy_problems import candidates, plain_greedy, problems
from yolofast.evaluate.greedy import suppress_torch


@pytest.mark.slow
@pytest.mark.parametrize("name", problems())
def test_plain_torch_keeps_what_one_box_at_a_time_does(name):
    found = candidates(problems()[name])
    for agnostic, most, threshold in ((False, 300, 0.5), (True, 300, 0.5), (False, 20, 0.65), (True, 1, 0.0)):
        kept, counts = suppress_torch(found, threshold, agnostic=agnostic, most=most)
        ours = [row[:n].tolist() for row, n in zip(kept, counts, strict=True)]
        assert ours == plain_greedy(found, threshold, agnostic, most)


def in_another_process(script, **environment):
    """Triton interprets or compiles for good from the moment it is imported."""
    return programs.run([sys.executable, "-c", script], env={**os.environ, **environment}, cwd=programs.ROOT)


@pytest.mark.slow
def test_the_kernel_keeps_what_plain_torch_does():
    pytest.importorskip("triton")
    script = """
import torch
from tests.evaluate.greedy_problems import candidates, problems
from yolofast.evaluate.greedy import suppress_bits, suppress_torch, suppress_triton
compared = 0
for number, (name, images) in enumerate(problems().items()):
    found = candidates(images)
    for agnostic, most, threshold in ((False, 300, 0.5), (True, 70, 0.5 if number % 2 else 0.65)):
        options = {"agnostic": agnostic, "most": most}
        expected = suppress_torch(found, threshold, **options)
        for way in (suppress_triton, suppress_bits):
            ours = way(found, threshold, **options)
            assert torch.equal(ours[1], expected[1]), (way, name, agnostic, most)
            same = all(torch.equal(a[:n], b[:n]) for a, b, n in zip(ours[0], expected[0], ours[1]))
            assert same, (way, name, agnostic, most)
            compared += int(ours[1].sum())
print(compared)
"""
    done = in_another_process(script, TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1000


@pytest.mark.slow
def test_the_kernel_compiles_and_computes_exactly():
    """For a GPU that need not be there: divisions are rounded to nearest, and nothing is fused."""
    pytest.importorskip("triton")
    script = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from yolofast.evaluate._greedy_kernel import greedy_kernel, overlap_kernel, settle_kernel
from yolofast.evaluate.greedy import _KERNEL_BLOCK, _KERNEL_WARPS
constants = {"AGNOSTIC": False, "BLOCK": _KERNEL_BLOCK, "WORDS": 64}
types = {"boxes_ptr": "*fp32", "threshold": "fp32", "columns": "i32", "words": "i32", "most": "i32"}
options = {"num_warps": _KERNEL_WARPS, "enable_fp_fusion": False}
for kernel in (greedy_kernel, overlap_kernel, settle_kernel):
    own = {name: value for name, value in constants.items() if name in kernel.arg_names}
    signature = {name: "constexpr" if name in own else types.get(name, "*i64") for name in kernel.arg_names}
    source = ASTSource(kernel, signature, own)
    ptx = triton.compile(source, target=GPUTarget("cuda", 80, 32), options=options).asm["ptx"]
    print("div.rn.f32" in ptx, "div.full" in ptx, "fma." in ptx)
"""
    done = in_another_process(script, TRITON_INTERPRET="0")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines == 2 * [["True", "False", "False"]] + [3 * ["False"]], done.stderr
