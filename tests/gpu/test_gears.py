"""Gears on the GPU: a replayed graph and a compiled step do what the step as written does."""

import threading
import time

import pytest
import torch

from tests.gpu.problems import HYP, targets
from tests.train.small_step import small_batch, small_step
from yolofast import build_loss, build_model
from yolofast.optim.optimizer import ModelEma, parameter_groups
from yolofast.optim.sgd import Sgd
from yolofast.precision import Precision
from yolofast.structures import Batch
from yolofast.train.gears import waking
from yolofast.train.gears.compiling import compiled_loss_of
from yolofast.train.gears.gear_box import GearBox
from yolofast.train.gears.gears import EagerGear, GraphGear, tried_only, with_padding_slots
from yolofast.train.gears.kernels_together import compile_kernels_together
from yolofast.train.step import StepKind, TrainStep

BATCH, SIZE, NC = 8, 128, 20
ALONE, ADDED, ADDED_UP = StepKind(False, True), StepKind(True, False), StepKind(True, True)


def make_step(precision="fp32", network="yolov7-tiny"):
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    model = build_model(network, nc=NC).cuda().to(memory_format=torch.channels_last).train()
    optimizer = Sgd(parameter_groups(model, 0.0005))
    return TrainStep(
        model, build_loss(model, HYP, SIZE), optimizer, ModelEma(model), Precision.choose(precision, "cuda")
    )


def batch(seed, size=BATCH):
    images = torch.rand(size, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(seed)).cuda()
    return Batch(images.contiguous(memory_format=torch.channels_last), targets(size, 6, NC, "cuda", seed, 16), None)


def run(step, gear, kinds, sizes=None):
    for number, kind in enumerate(kinds):
        step.optimizer.set((1e-3 * number, 2e-3, 1e-2), 0.8 + 0.01 * number)
        gear.run(batch(number, (sizes or {}).get(number, BATCH)), kind)
    return [tensor.clone() for tensor in step.tensors()]


def assert_close(first, second, rtol):
    for a, b in zip(first, second, strict=True):
        if a.is_floating_point():
            assert (a - b).norm() <= rtol * b.norm() + 1e-6


@pytest.mark.parametrize(
    "kinds", [[ALONE] * 6, [ADDED, ADDED_UP] * 3, [ALONE, ALONE, ADDED, ADDED_UP, ADDED, ADDED_UP]]
)
def test_a_graph_trains_as_eager_does(kinds):
    eager, graph = make_step(), make_step()
    assert_close(run(graph, GraphGear(graph), kinds), run(eager, EagerGear(eager), kinds), 1e-4)


def test_other_threads_may_ask_for_pinned_memory_while_a_graph_is_captured():
    """As a loader's does; the sizes grow, so that what it asks for is never there already."""
    stop, held, errors = threading.Event(), [], []

    def ask():
        try:
            while not stop.is_set():
                held.append(torch.empty(1000 * (1 + len(held)), pin_memory=True))
                time.sleep(0.001)
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        gear = GraphGear(make_step("bf16"))
        for size in (2, 4, 8):
            for number in range(2):
                gear.run(batch(number, size), ALONE)
    finally:
        stop.set()
        thread.join()
    assert not errors and gear.captured == 3 and len(held) > 10


def asks_the_host(step):
    """The step with a loss that waits for the device, which no graph can hold."""
    inner = step.criterion

    def asking(raw, targets):
        terms = inner(raw, targets)
        assert terms.total.item() == terms.total.item()
        return terms

    step.criterion = asking
    return step


def test_after_a_capture_that_failed_all_continues():
    """Also random numbers: torch leaves its generator believing that it is being captured."""
    said, step = [], asks_the_host(make_step("bf16"))
    box = GearBox(step, "graph", BATCH, 100, said.append, one_shape=False)
    for number in range(3):
        box.run(batch(number), ALONE)
    assert len(said) == 1 and "a lower gear" in said[0] and box.now == "eager"
    assert torch.rand(1000, device="cuda").std() > 0.2
    graph = GraphGear(make_step("bf16"))
    for number in range(2):
        graph.run(batch(number), ALONE)
    assert graph.captured == 1
    torch.cuda.synchronize()


def test_one_graph_serves_batches_with_fewer_boxes():
    """A box captures once for 16, 32 and 64 padding slots; weights move as in steps as written."""
    eager, graph = make_step(), make_step()
    box = GearBox(graph, "graph", BATCH, 100, pytest.fail)
    box.compile_nothing()
    for number, slots in enumerate([32, 64, 16, 32, 64, 16]):
        given = with_padding_slots(batch(number), slots)
        for step, gear in ((graph, box), (eager, EagerGear(eager))):
            step.optimizer.set((1e-3 * number, 2e-3, 1e-2), 0.8 + 0.01 * number)
            gear.run(given, ALONE)
    assert box.prepared == 3, "as written with 32 and 64, captured with 64"
    assert_close(graph.tensors(), eager.tensors(), 1e-4)


def test_compiling_a_networks_kernels_together_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path))
    plain, step = make_step("bf16"), make_step("bf16")
    compile_kernels_together(step, batch(0).images, tuned=False)
    assert len(list((tmp_path / "compiled").iterdir())) == 1
    assert all(torch.equal(own, other) for own, other in zip(step.tensors(), plain.tensors(), strict=True))
    assert_close(run(step, EagerGear(step), [ALONE] * 2), run(plain, EagerGear(plain), [ALONE] * 2), 1e-4)


def test_what_wakes_the_gpu_works():
    """In a run its failures are silent."""
    precision = make_step("bf16").precision
    before = torch.cuda.get_rng_state()
    waking.use_libraries(precision)
    waking.name_kernels()
    assert torch.equal(torch.cuda.get_rng_state(), before)
    for thread in waking.wake(precision):
        thread.join()


@pytest.mark.parametrize("sizes", [{2: 3, 4: 5}, {1: 3, 2: 3, 3: 3, 4: 3, 5: 3}])
def test_short_batches_between_replays(sizes):
    """Those that come often get a graph of their own, in the memory of the other.

    In a box convolutions are not tuned for so few steps. So they are not in the step it is compared with: tuned ones
    round differently, which may assign a box to another cell.
    """
    eager, graph = make_step(), make_step()
    kinds, untuned = [ALONE] * 7, EagerGear(eager, worth_tuning=lambda batch: False)
    box = GearBox(graph, "graph", BATCH, 7, print, one_shape=False)
    assert_close(run(graph, box, kinds, sizes), run(eager, untuned, kinds, sizes), 1e-4)


def test_a_replay_never_waits_for_the_host():
    step = make_step("bf16")
    gear = GraphGear(step)
    first = batch(0)
    for _ in range(2):
        gear.run(first, ALONE)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for number in range(3):
            step.optimizer.set((1e-3 * number, 2e-3, 1e-2), 0.9)
            gear.run(first, ALONE)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert step.losses.bad_steps == 0


def test_a_graph_follows_the_loss_that_is_set():
    """Weights stand still: moving, a young network multiplies the last bit by ten a step."""
    seen = []
    for make in (EagerGear, GraphGear):
        step = make_step()
        gear = make(step)
        step.optimizer.set((0.0, 0.0, 0.0), 0.0)
        first, second = (build_loss(step.model, {**HYP, "box": box}, SIZE, "anchor") for box in (0.05, 0.5))
        for number, criterion in enumerate((first, second, first, second)):
            step.criterion = criterion
            step.losses.reset()
            gear.run(batch(number), ALONE)
            seen.append(step.losses.means()["total"])
    assert seen[:4] == pytest.approx(seen[4:], rel=1e-4)
    assert seen[1] > 1.5 * seen[0]


def test_float16_omits_what_overflows_and_continues():
    step = make_step("fp16")
    step.loss_scale.scale.fill_(2.0**24)
    before = [p.detach().clone() for p in step.model.parameters()]
    gear = GraphGear(step)
    gear.run(batch(0), ALONE)
    gear.run(batch(1), ALONE)
    assert step.loss_scale.scale < 2.0**24
    for number in range(20):
        step.optimizer.set((1e-3, 1e-3, 1e-3), 0.9)
        gear.run(batch(number), ALONE)
    assert all(p.isfinite().all() for p in step.model.parameters())
    assert any(not torch.equal(p, b) for p, b in zip(step.model.parameters(), before, strict=True))
    assert step.losses.bad_steps == 0


def test_the_compiled_step_moves_weights_as_eager_does():
    """BatchNorm over few values multiplies rounding: images that differ in their last bits tell by how much."""
    torch._dynamo.reset()
    expected = moves_of(EagerGear)
    noise = 1e-7 * torch.randn(BATCH, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1)).cuda()
    rounding = apart(moves_of(EagerGear, 1 + noise), expected)
    own = moves_of(lambda step: GraphGear(step, compiled_loss_of(step)))
    assert apart(own, expected) <= 3 * rounding < 0.1, rounding
    for one, other in zip(own, expected, strict=True):
        assert (one - other).norm() <= 0.1 * other.norm() + 1e-7  # a forgotten part would show


def moves_of(gear, images_times=1.0):
    step = make_step()
    step.criterion = build_loss(step.model, HYP, SIZE, "anchor")
    before = [p.detach().clone() for p in step.model.parameters()]
    step.optimizer.set((0.0, 2e-3, 1e-2), 0.8)
    given = batch(0)
    given.images.mul_(images_times)
    made = gear(step)
    with tried_only(step):
        made.run(given, ALONE)  # as written: the next one is captured
    made.run(given, ALONE)
    return [p.detach() - b for p, b in zip(step.model.parameters(), before, strict=True)]


def apart(moves, others):
    move, other = (torch.cat([one.flatten() for one in some]) for some in (moves, others))
    return (move - other).norm() / other.norm()


def test_shifts_up_while_training():
    said, step = [], small_step(device="cuda")
    box, deadline = GearBox(step, "graph", 2, 10_000, said.append), time.monotonic() + 200
    while len(said) < 2 and time.monotonic() < deadline:
        box.run(step.on_device(small_batch(0)), ALONE)
        time.sleep(0.01)
    box.run(step.on_device(small_batch(1)), ALONE)
    box.close()
    assert said[0] == "gear: graph of the step as written while kernels compile"
    assert said[1].startswith("gear: graph, kernels compiled in"), said
    assert len(said) == 2


def test_the_host_sleeps_while_the_gpu_works():
    step = make_step("bf16")
    box, first = GearBox(step, "graph", BATCH, 300, print, one_shape=False), batch(0)
    for _ in range(5):
        box.run(first, ALONE)
    torch.cuda.synchronize()
    wall, used = time.perf_counter(), time.process_time()
    for _ in range(200):
        box.run(first, ALONE)
    wall, used = time.perf_counter() - wall, time.process_time() - used
    assert used < 0.5 * wall
