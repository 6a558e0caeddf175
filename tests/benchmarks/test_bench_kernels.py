"""Whose a replayed kernel is, and what a convolution needs."""

import pytest

from benchmarks.bench_kernels import Launch, Shape, by_kind, by_shape, kind_of, labelled, launches, parts_of, replayed

SHAPE = Shape(images=2, channels=8, outputs=16, size=(5, 4), window=3, stride=2, groups=1)


def operator(number, name, dims, values):
    return {"cat": "cpu_op", "name": name, "ts": 0, "dur": 1,
            "args": {"External id": number, "Input Dims": dims, "Concrete Inputs": values}}  # fmt: skip


def kernel(number, name, moment, dur=2.0, begun=None):
    args = {"External id": number, "correlation": moment}
    return [
        {"cat": "kernel", "name": name, "ts": 100 + moment, "dur": dur, "args": args},
        {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": begun or moment, "args": {"correlation": moment}},
    ]


def phase(name, start, end):
    return {"cat": "user_annotation", "name": name, "ts": start, "dur": end - start, "args": {}}


MAPS = [[2, 16, 5, 4], [2, 8, 9, 8], [16, 8, 3, 3]]
EVENTS = [
    phase("forward", 0, 10), phase("backward", 10, 30), phase("optimizer", 30, 40),
    operator(1, "aten::cudnn_convolution", MAPS[1:], ["", "", "[1, 1]", "[2, 2]", "[1, 1]", "1"]),
    operator(2, "aten::convolution_backward", MAPS, ["", "[True, True, False]"]),
    operator(3, "aten::add", [], []),
    *kernel(1, "fprop", 1), *kernel(0, "norm_act_kernel", 2), *kernel(0, "norm_act_back_kernel", 11),
    *kernel(2, "some_dgrad", 12), *kernel(3, "vectorized", 13), *kernel(2, "memset", 14), *kernel(2, "wgrad", 15),
    *kernel(7, "vectorized", 31),
]  # fmt: skip


def test_kernels_know_their_layer_and_phase():
    found = launches(EVENTS)
    assert [(one.phase, one.shape, one.part) for one in found] == [
        ("forward", SHAPE, "forward"), ("forward", None, ""), ("backward", None, ""),
        ("backward", SHAPE, "input gradient"), ("backward", None, ""), ("backward", SHAPE, "weight gradient"),
        ("backward", SHAPE, "weight gradient"), ("optimizer", None, ""),
    ]  # fmt: skip
    assert [kind_of(one) for one in found] == [
        "convolutions, forward", "BatchNorm and activation, forward", "BatchNorm and activation, backward",
        "convolutions, input gradient", "adding gradients", "convolutions, weight gradient",
        "convolutions, weight gradient", "optimizer",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "mask", "inputs"),
    [
        (["gemm", "other"], "[True, True, False]", 1),  # neither says what it is
        (["gemm", "memset", "wgrad"], "[True, True, False]", 1),
        (["pad", "dgrad", "gemm"], "[True, True, False]", 2),
        (["gemm", "sum"], "[False, True, False]", 0),
        (["gemm", "sum"], "[True, False, False]", 2),
    ],
)
def test_the_gradient_of_the_input_comes_first(names, mask, inputs):
    found = parts_of(names, operator(1, "aten::convolution_backward", MAPS, ["", mask]))
    assert found == ["input gradient"] * inputs + ["weight gradient"] * (len(names) - inputs)


def test_replays_are_told_apart_and_labelled():
    def replay(start, dur):
        names = ("copy of the batch", *(one["name"] for one in EVENTS if one.get("cat") == "kernel"))
        return [
            {"cat": "kernel", "name": name, "ts": start + n, "dur": dur, "args": {}} for n, name in enumerate(names)
        ]

    kernels = replayed([event for n, dur in enumerate((4.0, 2.0, 3.0)) for event in replay(20 * n, dur)], 3)
    assert [us for _, us in kernels] == [3.0] * 9
    found = labelled(kernels, launches(EVENTS))
    assert found[0] == (Launch("copy of the batch"), 3.0)
    assert kind_of(found[0][0]) == "not found in the step as written"
    assert [launch for launch, _ in found[1:]] == launches(EVENTS)
    table = "\n".join(by_kind(found))
    assert "| convolutions, weight gradient | 2 | 0.006 | 22.2 |" in table
    assert table.endswith("| all | 9 | 0.027 | 100.0 |")
    # 2 × 20 places × 16 × 8 × 9 products, and 2 bytes of 640 + 2 × 4 × 20 × 8 + 1152 numbers, in 3 µs.
    flops, moved = 2 * 40 * 16 * 72 / 3e-6 / 1e12, 2 * (40 * 16 + 160 * 8 + 1152) / 3e-6 / 1e12
    row = list(by_shape(found, 5))[2]
    assert row.startswith(f"| 1 × 8 → 16, 5×4, 3×3/2 | 3.0 | {flops:.2f} | {moved:.2f} | 3.0 |")
    assert "| 6.0 |" in row
    with pytest.raises(SystemExit, match="lost some"):
        replayed(replay(0, 1.0)[:-1] + replay(50, 1.0), 2)
