"""Two ranks on a CPU add up their gradients: in buckets, beside the backward pass, and only before weights move."""

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import nn

from yolofast.optim.optimizer import ModelEma, parameter_groups
from yolofast.optim.sgd import Sgd
from yolofast.precision import Precision
from yolofast.ranks import is_first, rank, reduces, reducing_alone, world
from yolofast.structures import Batch, LossTerms, Targets
from yolofast.train.distributed import averaged_gradients
from yolofast.train.distributed.averaged_gradients import AveragedGradients, buckets_of
from yolofast.train.distributed.averaged_step import distribute
from yolofast.train.distributed.join import device_of_rank, group_of_one, joined
from yolofast.train.distributed.launch import launch
from yolofast.train.gears import gear_box, gears
from yolofast.train.gears.gear_box import GearBox, gear_of_ranks
from yolofast.train.gears.gears import EagerGear, with_padding_slots
from yolofast.train.gears.ranks_gear import RanksGear
from yolofast.train.step import StepKind, TrainStep

ALONE, ADDED, ADDED_UP = StepKind(False, True), StepKind(True, False), StepKind(True, True)
LAYERS, STEPS = 6, [ALONE, ADDED, ADDED, ADDED_UP, ALONE]
HALVES = (slice(0, 2), slice(2, 4))


class Squares:
    """A loss without BatchNorm before it: its mean over halves of a batch is that of the batch."""

    def __call__(self, raw, targets):
        boxes = (targets.boxes.sum(-1) * targets.valid).sum(1)
        loss = raw[0].square().mean() + (boxes * raw[0].mean((1, 2, 3))).mean()
        return LossTerms(loss, {"box": loss, "obj": loss * 0, "cls": loss * 0}, times_images=True)


class Chain(nn.Module):
    """Notes which layers the backward pass has reached."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(3, 3, 3, padding=1) for _ in range(LAYERS))
        self.left_out, self.reached = -1, []

    def forward(self, images):
        maps = images
        for number, layer in enumerate(self.layers):
            if number != self.left_out:
                maps = torch.tanh(layer(maps))
                maps.requires_grad and maps.register_hook(lambda grad, number=number: self.reached.append(number))
        return [maps]


def small_step():
    torch.manual_seed(0)
    model = Chain().double().to(memory_format=torch.channels_last).train()
    optimizer = Sgd(parameter_groups(model, 0.01))
    optimizer.set((0.1, 0.1, 0.1), 0.9)
    return TrainStep(model, Squares(), optimizer, ModelEma(model), Precision(torch.device("cpu"), torch.float32))


def batch(seed, part=slice(None), slots=3):
    """`slots` with as many boxes."""
    rng = torch.Generator().manual_seed(seed)
    images, boxes = torch.rand(4, 3, 8, 8, generator=rng, dtype=torch.float64), torch.rand(4, 3, 4, generator=rng)
    targets = Targets(boxes[part], torch.zeros(4, 3).long()[part], torch.ones(4, 3).bool()[part])
    return with_padding_slots(Batch(images[part], targets, None), slots)


def weights_of(step):
    return torch.cat([p.detach().flatten() for p in step.model.parameters()])


def learnt(part=slice(None), gear=EagerGear):
    step = small_step()
    if reduces():
        distribute(step)
    step.model.reached.clear()
    own = gear(step)
    for number, kind in enumerate(STEPS):
        own.run(batch(number, part), kind)
    return step


def sums_of(kinds):
    """Sums that steps of these kinds begin, and how far the backward pass had got by then."""
    step, begun, all_reduce = small_step(), [], dist.all_reduce
    distribute(step)

    def noted(tensor, *args, **more):
        begun.append((tensor.numel(), len(step.model.reached)))
        return all_reduce(tensor, *args, **more)

    dist.all_reduce = noted
    try:
        for number, kind in enumerate(kinds):
            EagerGear(step).run(batch(number, HALVES[rank()]), kind)
    finally:
        dist.all_reduce = all_reduce
    return begun


def after_freezing():
    """The first layers stop learning in between; a layer of one rank is not used at all."""
    step = small_step()
    distribute(step)
    part, gear = HALVES[rank()], EagerGear(step)
    gear.run(batch(0, part), ALONE)
    for layer in step.model.layers[:3]:
        layer.requires_grad_(False)
    step.learn_what_requires_it(step.optimizer.regrouped(parameter_groups(step.model, 0.01)))
    step.optimizer.set((0.1, 0.1, 0.1), 0.9)
    distribute(step)
    gear.run(batch(1, part), ALONE)
    hooks = [len(p._post_accumulate_grad_hooks or ()) for p in step.model.parameters()]
    if not is_first():
        step.model.left_out = 4
    gear.run(batch(2, part), ALONE)
    return hooks, weights_of(step)


class Graph:
    """As far as a machine without a GPU has them: what it replays is the step as written."""

    failing = False

    def __init__(self, step, batch, kind, *more, **others):
        if Graph.failing:
            raise RuntimeError("it cannot be captured")
        self._step, self._kind = step, kind

    def replay(self, batch, probe):
        Graph.replayed.append(batch.targets.valid.shape[1])
        self._step.run(batch.images, batch.targets, self._kind)


def geared(failing):
    """Parts of a batch with unequal boxes; the third is smaller on one rank; each comes twice or more."""
    step, said, nows = small_step(), [], []
    distribute(step)
    Graph.failing, Graph.replayed = failing, []
    gear = RanksGear(step, 2, said.append)
    gear._graph._pool = SimpleNamespace(handle=None)
    for number, slots in enumerate((3, 3, 3, 3 + 2 * rank(), 5, 5, 3)):
        part = HALVES[rank()] if number != 2 else (slice(0, 2), slice(2, 3))[rank()]
        gear.run(batch(number, part, slots), ALONE)
        nows.append(gear.now)
    gear.close()
    return {"said": said, "now": nows, "replayed": Graph.replayed, "weights": weights_of(step)}


def as_rank(report, file):
    with joined(device_of_rank("cpu")):
        averaged_gradients.SMALLEST = 2 * 84 * 8  # two layers a bucket
        gears._Captured = Graph
        found = {"learnt": weights_of(learnt(HALVES[rank()]))}
        found["sums"] = [sums_of(kinds) for kinds in ([ALONE], [ADDED], [ADDED, ADDED_UP])]
        found["frozen"] = after_freezing()
        found["captured"], found["failing"] = geared(failing=False), geared(failing=not is_first())
        everybody = [None] * world()
        dist.all_gather_object(everybody, found)
        if is_first():
            torch.save(everybody, file)
        report("")
    return 0


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    file = tmp_path_factory.mktemp("ranks") / "found.pt"
    launch(as_rank, (file,), 2)
    return torch.load(file, weights_only=False)


@pytest.mark.slow
def test_two_ranks_learn_what_one_process_does(ranks):
    alone = weights_of(learnt())
    for found in ranks:
        torch.testing.assert_close(found["learnt"], alone, rtol=1e-12, atol=0)
    assert torch.equal(ranks[0]["learnt"], ranks[1]["learnt"])
    assert not torch.allclose(alone, weights_of(small_step()), rtol=1e-3)


@pytest.mark.slow
def test_sums_begin_while_the_backward_pass_continues(ranks):
    """Two layers are a bucket: it is full once the gradient has passed the second of them."""
    assert [found["sums"][0] for found in ranks] == [[(168, 2), (168, 4), (168, 6)]] * 2


@pytest.mark.slow
def test_gradients_that_wait_are_not_added_up(ranks):
    assert [found["sums"][1] for found in ranks] == [[]] * 2
    assert [[passed for _, passed in found["sums"][2]] for found in ranks] == [[8, 10, 12]] * 2


@pytest.mark.slow
def test_layers_that_stop_learning_and_layers_that_one_rank_does_not_use(ranks):
    (hooks, weights), (others, other_weights) = (found["frozen"] for found in ranks)
    assert hooks == others == [0] * 6 + [1] * 6
    assert torch.equal(weights, other_weights)


@pytest.mark.slow
def test_ranks_capture_and_replay_together(ranks):
    """The first of a sort runs as written. What is smaller on one rank, or not yet known, does so on both."""
    for found in (one["captured"] for one in ranks):
        assert found["said"] == []
        assert found["replayed"] == [3, 5, 5, 3], "with the slots of the fuller part"
        assert found["now"] == ["eager", "graph", "graph", "eager", "graph", "graph", "graph"]
    assert torch.equal(ranks[0]["captured"]["weights"], ranks[1]["captured"]["weights"])


@pytest.mark.slow
def test_when_one_rank_cannot_capture_all_continue_as_written(ranks):
    first, second = (one["failing"] for one in ranks)
    assert first["said"] == ["gear: a rank cannot capture its step; all ranks continue in a lower gear"]
    assert second["said"] == ["gear: RuntimeError: it cannot be captured; all ranks continue in a lower gear"]
    for found in (first, second):
        assert found["replayed"] == [] and set(found["now"]) == {"eager"}
        torch.testing.assert_close(found["weights"], ranks[0]["captured"]["weights"], rtol=1e-12, atol=0)


def test_buckets_are_filled_from_the_last_layer_on():
    sizes = [3, 5, 2, 1]
    parameters = [torch.zeros(size * 2**18) for size in sizes]  # MiB
    assert [[len(p) >> 18 for p in bucket] for bucket in buckets_of(parameters)] == [[1], [2], [5], [3]]
    many = [torch.zeros(2**18) for _ in range(120)]
    assert [len(bucket) for bucket in buckets_of(many)] == [25, 25, 25, 25, 20]
    mixed = [torch.zeros(4), torch.zeros(4, dtype=torch.float64)]
    assert [bucket[0].dtype for bucket in buckets_of(mixed)] == [torch.float64, torch.float32]


def test_nothing_is_left_on_parameters_of_sums_that_are_gone():
    parameter = nn.Parameter(torch.ones(3))
    averaged = AveragedGradients([parameter])
    del averaged
    (parameter * 2).sum().backward()
    assert parameter.grad.tolist() == [2, 2, 2]


def test_a_group_of_one_learns_the_same_bits():
    alone = weights_of(learnt())
    with group_of_one(torch.device("cpu")):
        step = learnt()
        assert step.exchange is not None
        assert torch.equal(weights_of(step), alone)
    assert not reduces() and not dist.is_initialized() and learnt().exchange is None


def test_a_gear_box_inside_a_group_is_that_of_its_ranks(monkeypatch):
    monkeypatch.setattr(gears, "_Captured", Graph)
    monkeypatch.setattr(Graph, "replayed", [], raising=False)
    with group_of_one(torch.device("cpu")):
        step, nows = small_step(), []
        distribute(step)
        box = GearBox(step, "graph", 4, 10, print)
        box._ranks._graph._pool = SimpleNamespace(handle=None)
        for number in range(4):
            if number == 3:
                box.close()  # as at the end: nothing may hold on to the group
            box.run(batch(number), ALONE)
            nows.append(box.now)
        assert nows == ["eager", "graph", "graph", "eager"] and len(Graph.replayed) == 2


def test_alone_nothing_is_added_up_unless_it_is_asked_for():
    assert not reduces()
    with reducing_alone():
        assert reduces() and world() == 1
    assert not reduces()


@pytest.mark.parametrize(
    ("asked", "device", "sync_bn", "gear", "word"),
    [
        ("auto", "cpu", False, "eager", ""),
        ("graph", "cpu", False, "eager", "gear: eager instead of graph, which several processes run on GPUs only"),
        ("auto", "cuda", False, "graph", ""),
        ("graph", "cuda", False, "graph", ""),
        ("eager", "cuda", False, "eager", ""),
        ("auto", "cuda", True, "eager", "gear: eager, because BatchNorm over all GPUs (--sync-bn) cannot be captured"),
        (
            "compile", "cuda", False, "graph",
            "gear: graph of the step as written instead of compile, which runs on one GPU only",
        ),
    ],
)  # fmt: skip
def test_the_gear_of_several_ranks(asked, device, sync_bn, gear, word, monkeypatch):
    said = []
    if asked == "auto":
        with reducing_alone():
            assert gear_of_ranks(asked, torch.device(device), said.append, sync_bn=sync_bn) == "eager"
        monkeypatch.setattr(gear_box, "NEW_KERNELS", True)
    with reducing_alone():
        assert gear_of_ranks(asked, torch.device(device), said.append, sync_bn=sync_bn) == gear
    assert said == ([word] if word else [])
    assert gear_of_ranks(asked, torch.device(device), said.append, sync_bn=sync_bn) == asked, "alone"
