"""What only a GPU can show of assignment and loss: no sync, one graph, the same result always, bounded memory."""

import pytest
import torch

from tests.gpu.problems import HYP, Reader, layout, raw_maps, targets
from yolofast import build_loss
from yolofast.assign.dynamic_k import choose_columns, choose_columns_torch

GROUPS = tuple(tuple(range(i, 80, 4)) for i in range(4))
LOSSES = {
    "anchor": (layout(), "anchor", False),
    "ota": (layout(), "ota", False),
    "aux": (layout(4), "ota", True),
    "tal": (layout(), "tal", False),
    "bin": (layout(kind="bin", bins=21), "ota", False),
    "1b4h": (layout(head_classes=GROUPS), "anchor", False),
    "1b4h-ota": (layout(head_classes=GROUPS), "ota", False),
    "simota": (layout(kind="point"), "simota", False),
    "simota-tal": (layout(kind="point"), "tal", False),
}


def problem(name, device="cuda", batch=8, size=320, boxes=12, dtype=torch.float32):
    head, assigner, aux = LOSSES[name]
    raw = raw_maps(head, batch, size, device, dtype, aux)
    return build_loss(Reader(head, device), HYP, size, assigner), raw, targets(batch, boxes, head.nc, device)


def step(criterion, raw, truth):
    terms = criterion(raw, truth)
    return (terms.total.detach(), *torch.autograd.grad(terms.total, raw))


def assert_same(actual, expected, rtol=1e-5):
    for a, b in zip(actual, expected, strict=True):
        assert (a - b).norm() <= rtol * b.norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", LOSSES)
def test_never_waits_for_the_host(name, dtype):
    criterion, raw, truth = problem(name, dtype=dtype)
    step(criterion, raw, truth)  # the first call may compile kernels
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        result = step(criterion, raw, truth)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(t.isfinite().all() for t in result)


@pytest.mark.parametrize("name", LOSSES)
def test_a_captured_graph_gives_what_eager_gives(name):
    criterion, raw, truth = problem(name)
    eager = step(criterion, raw, truth)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step(criterion, raw, truth)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step(criterion, raw, truth)
    graph.replay()
    assert_same(captured, eager)
    # Other numbers in the same memory: the graph must not have kept anything of the first ones.
    with torch.no_grad():
        for raw_map in raw:
            raw_map.copy_(raw_map.flip(0) * 1.1)
        truth.boxes.copy_(truth.boxes.flip(0))
        truth.labels.copy_(truth.labels.flip(0))
        truth.valid.copy_(truth.valid.flip(0))
    graph.replay()
    assert_same(captured, step(criterion, raw, truth))


@pytest.mark.parametrize("name", LOSSES)
def test_the_compiled_step_gives_what_eager_gives(name):
    torch._dynamo.reset()
    criterion, raw, truth = problem(name)
    compiled = torch.compile(lambda raw, truth: criterion(raw, truth).total, fullgraph=True)
    total = compiled(raw, truth)
    assert_same((total.detach(), *torch.autograd.grad(total, raw)), step(criterion, raw, truth), rtol=1e-4)


@pytest.mark.parametrize("name", LOSSES)
def test_cpu_and_gpu_agree(name):
    on_gpu = step(*problem(name, "cuda"))
    on_cpu = step(*problem(name, "cpu"))
    assert_same([t.cpu() for t in on_gpu], on_cpu, rtol=1e-4)


def test_the_same_inputs_give_the_same_assignment_always():
    """Many boxes on top of one another, so that ties are everywhere."""
    criterion, raw, truth = problem("ota", boxes=60)
    truth.boxes[:, 1::2] = truth.boxes[:, ::2]
    anchors = criterion.model.anchors_px / torch.tensor([8.0, 16.0, 32.0], device="cuda").view(3, 1, 1)
    first = criterion.assign(raw, truth, anchors, 0.5, 10)
    for _ in range(100):
        again = criterion.assign(raw, truth, anchors, 0.5, 10)
        for a, b in zip(first, again, strict=True):
            for field in ("cell", "target", "positive", "sets_objectness"):
                assert torch.equal(getattr(a, field), getattr(b, field))


@pytest.mark.parametrize("columns", [1, 31, 720, 1440, 8400, 30_000, 40_000])
def test_the_selection_kernel_is_the_torch_selection(columns):
    for seed in range(5):
        generator = torch.Generator("cuda").manual_seed(seed)
        cost = torch.randint(0, 50, (4, 16, columns), generator=generator, device="cuda").float()
        iou = torch.rand(4, 16, columns, generator=generator, device="cuda")
        absent = torch.rand(4, 1, columns, generator=generator, device="cuda") < 0.3
        cost, iou = torch.where(absent, torch.inf, cost), torch.where(absent, 0.0, iou)
        for topk in (10, 20):
            assert torch.equal(choose_columns(cost, iou, topk), choose_columns_torch(cost, iou, topk))


@pytest.mark.parametrize("name", ["anchor", "ota", "tal"])
def test_memory_stays_bounded(name):
    """Batch 64, 640², up to 128 boxes per image, 80 classes: under 2 GiB beyond the predictions."""
    criterion, raw, _ = problem(name, batch=64, size=640, boxes=1)
    truth = targets(64, 90, 80, "cuda", capacity=128)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = step(criterion, raw, truth)
    assert result[0].isfinite()
    assert torch.cuda.max_memory_allocated() - before < 2 * 2**30


@pytest.mark.parametrize("name", ["ota", "tal", "simota"])
def test_many_boxes_are_taken_in_parts(name):
    criterion, raw, _ = problem(name, batch=4, boxes=1)
    truth = targets(4, 600, 80, "cuda", capacity=1024)
    assert all(t.isfinite().all() for t in step(criterion, raw, truth))
