"""Which gear runs when: lower ones while kernels compile, and after a failure; all give the same results."""

import os
import re
import time

import pytest
import torch

from tests.patience import PATIENCE
from tests.train.small_step import AskingMap, AsksTheHost, small_batch, small_step
from yolofast.train.gears import gear_box, gears
from yolofast.train.gears.compiling import compile_report, forget_unused, keep_compiled_kernels, kernel_folder
from yolofast.train.gears.gear_box import GearBox, choose_gear
from yolofast.train.gears.gears import GraphGear, with_padding_slots
from yolofast.train.step import StepKind

ALONE = StepKind(sums=False, updates=True)
LOOKS = 0.3
"""Seconds from one look at the process that compiles to the next: steps in between only take time from it."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, shared_folder, monkeypatch):
    """Kernels are shared by the tests of this file: most compile the same step."""
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(shared_folder / "kernels"))
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")


def run_until_compiled(box, said):
    steps, deadline = 0, time.monotonic() + PATIENCE
    while len(said) < 2 and time.monotonic() < deadline:
        box.run(small_batch(steps), ALONE)
        steps += 1
        time.sleep(LOOKS if said else 0)
    box.run(small_batch(steps, images=3), ALONE)  # an epoch's last batch in between
    for number in range(steps + 1, steps + 4):
        box.run(small_batch(number), ALONE)
    return steps


@pytest.mark.slow
def test_shifts_up_when_kernels_are_compiled_and_learns_the_same(monkeypatch):
    """Batches with fewer places than was compiled for run compiled; if fuller ones come often they are compiled for."""
    from torch._dynamo.utils import counters  # seconds, which `make quick` need not spend

    monkeypatch.setattr(gear_box, "_WORTH_MORE_SLOTS", 1)
    torch.backends.cuda.matmul.allow_tf32 = False  # as it is, but torch tells what was set from what was not
    said, ran, step, plain = [], [], small_step(), small_step()
    box, deadline = GearBox(step, "compile", 2, 10_000, said.append), time.monotonic() + PATIENCE

    def run(places=3, images=2):
        ran.append(with_padding_slots(small_batch(len(ran), images), places))
        box.run(ran[-1], ALONE)
        return box.now

    counters.clear()
    while len(said) < 2 and time.monotonic() < deadline:
        run(8), time.sleep(LOOKS if said else 0)
    run(images=3)  # an epoch's last batch in between
    assert [run(3), run(5), run(8), run(16), run(8)] == ["compiled"] * 3 + ["eager", "compiled"]
    assert run(16) == "eager" and run(8) == "compiled"
    box.close()
    # Here nothing was compiled again: what the other process has compiled was found.
    found = {name: counters["inductor"][f"fxgraph_cache_{name}"] for name in ("hit", "miss", "bypass")}
    assert found == {"hit": 4, "miss": 0, "bypass": 0}
    assert said[0] == "gear: eager while kernels compile"
    assert said[1].startswith("gear: compile, kernels compiled in"), said
    assert said[2:] == ["gear: compile, and eager for fuller batches while kernels compile"]
    assert any(os.scandir(os.environ["TORCHINDUCTOR_CACHE_DIR"]))
    eager = GearBox(plain, "eager", 2, 0, said.append)
    for batch in ran:
        eager.run(batch, ALONE)
    for own, expected in zip(step.tensors(), plain.tensors(), strict=True):
        assert torch.allclose(own, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_what_cannot_be_compiled_says_why_and_continues():
    said, box_step = [], small_step(network=AskingMap)
    box = GearBox(box_step, "compile", 2, 10_000, said.append)
    run_until_compiled(box, said)
    box.close()
    assert said[1].startswith("gear: stays eager, compiling failed: ")
    assert len(said[1]) > 50
    assert box_step.losses.bad_steps == 0


class Replay:
    """A graph, as far as a machine without a GPU has them: what was captured is made again."""

    def __init__(self, step, batch, kind, loss_of, pool):
        self._step, self._kind, self._shape = step, kind, batch.targets.valid.shape
        self.replays = 0

    def replay(self, batch, probe):
        assert batch.targets.valid.shape == self._shape
        self.replays += 1
        self._step.run(batch.images, batch.targets, self._kind)


@pytest.fixture
def graphs(monkeypatch):
    monkeypatch.setattr(gears, "_Captured", Replay)
    monkeypatch.setattr(gears.GraphPool, "handle", None)


def box_of_graphs(step, **how):
    box = GearBox(step, "graph", 2, 1000, pytest.fail, **how)
    box.compile_nothing()
    return box


def slots_of_graphs(box):
    return {key.slots: graph.replays for key, graph in box._plain._graphs.items()}


def test_the_first_batch_is_learnt_from_as_written_the_second_captured(graphs):
    """Each of them once: the state is that of steps as written, to the bit."""
    step, plain = small_step(), small_step()
    gear, kinds = GraphGear(step), [ALONE, ALONE, StepKind(True, False), StepKind(True, True), ALONE]
    for number, (kind, captured) in enumerate(zip(kinds, [0, 1, 1, 1, 1], strict=True)):
        gear.run(small_batch(number), kind)
        plain.run(small_batch(number).images, small_batch(number).targets, kind)
        assert gear.captured == captured
    for own, expected in zip(step.tensors(), plain.tensors(), strict=True):
        assert torch.equal(own, expected)


def test_other_layers_that_learn_are_captured_anew(graphs):
    step = small_step()
    gear = GraphGear(step)
    for number in range(4):
        gear.run(small_batch(number), ALONE)
        step.version += number == 1
    assert gear.captured == 1 and gear.prepared == 2


def test_batches_with_fewer_boxes_run_in_the_graph_there_is(graphs, monkeypatch):
    """The fullest so far is captured. What comes often gets its own graph, what is fuller at once."""
    monkeypatch.setattr(gear_box, "_WORTH_FEWER_SLOTS", 4)
    step, plain = small_step(), small_step()
    box = box_of_graphs(step)
    seen = []
    for number, slots in enumerate([4, 8, 4, 8, 3, 4, 16, 8, 4, 4, 4, 16]):
        batch = with_padding_slots(small_batch(number), slots)
        box.run(batch, ALONE)
        plain.run(batch.images, batch.targets, ALONE)
        seen.append(slots_of_graphs(box))
    assert seen[:4] == [{}, {}, {8: 1}, {8: 2}], "the third, with 4 slots, was made to have 8"
    assert seen[5] == {8: 4} and seen[6] == {8: 4} and seen[7] == {8: 5}, "one with 16 is learnt from as written"
    assert seen[8] == {8: 6} and seen[9] == {8: 6, 4: 1}, "the fifth with 4, of which the first was as written"
    assert seen[11] == {8: 6, 4: 2, 16: 1}
    for own, expected in zip(step.tensors(), plain.tensors(), strict=True):
        assert torch.allclose(own, expected, rtol=1e-4, atol=1e-6)


def test_short_batches_have_a_graph_for_each_number_of_images(graphs):
    box = box_of_graphs(small_step())
    box.run(with_padding_slots(small_batch(0), 8), ALONE)
    for number in range(8):
        box.run(with_padding_slots(small_batch(number, images=3), 3 + number % 4), ALONE)
    assert slots_of_graphs(box) == {8: 4}, "three as written, one as written to be captured, four captured"


def test_where_sizes_of_images_differ_all_have_as_many_slots(graphs):
    box = box_of_graphs(small_step(), one_shape=False)
    for number, slots in enumerate([8, 4, 4, 3]):
        box.run(with_padding_slots(small_batch(number), slots), ALONE)
    assert slots_of_graphs(box) == {8: 3}


def test_for_the_profiler_graphs_are_there_at_once_and_nothing_is_learnt(graphs):
    step, plain = small_step(), small_step()
    box = box_of_graphs(step)
    box.settle(small_batch(0))
    assert box.prepared == 2 and slots_of_graphs(box) == {3: 1}
    for own, expected in zip(step.tensors(), plain.tensors(), strict=True):
        assert torch.equal(own, expected)


def test_a_gear_that_fails_gives_way_to_a_lower_one():
    class Failing:
        def run(self, batch, kind):
            raise RuntimeError("no\nsecond line")

    said, step = [], small_step()
    box = GearBox(step, "compile", 2, 0, said.append, one_shape=False)
    box._plain = Failing()
    box.run(small_batch(0), ALONE)
    assert said == ["gear: RuntimeError: no; continues in a lower gear"]
    assert step.losses.means()["box"] > 0


def test_what_is_not_the_gears_fault_is_raised():
    step = small_step()
    step.criterion = None
    with pytest.raises(TypeError):
        GearBox(step, "compile", 2, 0, lambda text: None, one_shape=False).run(small_batch(0), ALONE)


def test_short_runs_are_not_compiled():
    said = []
    box = GearBox(small_step(), "compile", 2, 50, said.append, worth_compiling=gear_box.WORTH_COMPILING)
    for number in range(16):
        box.run(small_batch(number), ALONE)
    assert said == []
    for number in range(16, 20):
        box.run(small_batch(number), ALONE)
    assert len(said) == 1
    assert re.fullmatch(r"gear: eager; \d+ s are too few for compiling to pay", said[0])


@pytest.mark.slow
def test_runs_that_take_long_are_compiled():
    said = []
    box = GearBox(small_step(), "compile", 2, 10_000_000, said.append, worth_compiling=gear_box.WORTH_COMPILING)
    for number in range(20):
        box.run(small_batch(number), ALONE)
    box.close()
    assert said == ["gear: eager while kernels compile"]


def test_compiling_begins_again_when_other_layers_learn():
    said, step = [], small_step()
    box = GearBox(step, "compile", 2, 50, said.append, worth_compiling=gear_box.WORTH_COMPILING)
    for number in range(20):
        box.run(small_batch(number), ALONE)
    assert len(said) == 1
    step.version += 1
    for number in range(2):
        box.run(small_batch(number), ALONE)
    assert len(said) == 2


def test_the_cpu_runs_as_written():
    said = []
    assert choose_gear("graph", small_step(), 2, 10, said.append).name == "eager"
    assert choose_gear("auto", small_step(), 2, 10, said.append).name == "eager"
    assert said == ["gear: eager (graphs need a GPU)", "gear: eager"]


@pytest.mark.slow
def test_for_the_profiler_it_compiles_at_once_and_learns_nothing_meanwhile():
    said, step, plain = [], small_step(), small_step()
    box = choose_gear("compile", step, 2, 10, said.append, at_once=small_batch(0))
    assert said == ["compiling, which may take minutes (--gear eager does without)"]
    assert (box.compiled, box.captured, box.compile_failed) == (True, False, "")
    for own, expected in zip(step.tensors(), plain.tensors(), strict=True):
        assert torch.equal(own, expected)
    twin = box.twin(captured=False)
    for number, gear in enumerate((box, twin, box)):
        gear.run(with_padding_slots(small_batch(number), 3 + number), ALONE)  # any number of places is compiled for
    assert (box.now, twin.now, twin.compiled) == ("compiled", "eager", False)
    assert len(said) == 1 and step.losses.bad_steps == 0


@pytest.mark.slow
def test_what_fails_at_once_leaves_the_lower_gear_and_says_why():
    said = []
    box = choose_gear("compile", small_step(network=AskingMap), 2, 10, said.append, at_once=small_batch(0))
    box.run(small_batch(0), ALONE)
    assert (box.now, box.compiled) == ("eager", False) and box.compile_failed
    assert said[1] == f"gear: {box.compile_failed}; a lower gear is profiled, as it would be trained in"


@pytest.mark.slow
def test_kernels_of_other_sources_are_kept_elsewhere(tmp_path):
    assert kernel_folder().parent.name == "kernels" and len(kernel_folder().name) == 16


@pytest.mark.slow
@pytest.mark.parametrize("chosen", ["", "torch's", "mine"])
def test_kernels_are_kept_where_the_user_says_or_in_the_cache_folder(chosen, tmp_path, monkeypatch):
    """What torch sets by itself is nobody's choice: it would mix kernels of all sources, among temporary files."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    kernel_folder.cache_clear()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", default_cache_dir() if chosen == "torch's" else chosen)
    if not chosen:
        monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    keep_compiled_kernels()
    ours = str(kernel_folder())
    kernel_folder.cache_clear()
    assert ours.startswith(str(tmp_path))
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == ("mine" if chosen == "mine" else ours)


@pytest.mark.slow
def test_report_of_a_whole_graph():
    report = compile_report(small_step(), small_batch(0))
    assert "graphs: 1, breaks: 0" in report and "in one graph" in report


@pytest.mark.slow
def test_report_names_what_breaks_it():
    report = compile_report(small_step(AsksTheHost()), small_batch(0))
    assert "break 1" in report and "small_step.py" in report and "cannot be compiled whole" in report


@pytest.mark.parametrize(
    ("one_shape", "steps", "images", "tuned"),
    [(True, 100, 2, True), (True, 100, 3, False), (False, 100, 2, False), (False, 20_000, 2, True)],
)
def test_convolutions_are_tuned_for_shapes_that_come_often(one_shape, steps, images, tuned):
    seen, step = [], small_step()
    loss_of = step.loss_of
    step.loss_of = lambda *given: seen.append(torch.backends.cudnn.benchmark) or loss_of(*given)
    GearBox(step, "eager", 2, steps, print, one_shape=one_shape).run(small_batch(0, images=images), ALONE)
    assert seen == [tuned]


def test_kernels_that_nobody_used_for_a_month_are_forgotten(tmp_path):
    own, recent, old = (tmp_path / name for name in ("own", "recent", "old"))
    for folder, days in ((own, 90), (recent, 29), (old, 31)):
        folder.mkdir()
        os.utime(folder, (0, time.time() - days * 24 * 3600))
    forget_unused(own)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own", "recent"]
