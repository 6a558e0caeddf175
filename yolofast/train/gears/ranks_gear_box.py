"""The gear of several ranks: a step captured with its sums over the ranks, which all of them replay together.

NCCL wants a sum to be captured on all ranks or on none, and a graph to be launched by all. So the hosts meet before
each step, while devices are some steps behind (two on a busy CPU took 0.2 ms). They take as many padding slots as the
fullest part of the batch has. Unless all parts have the usual shape, all ranks run the step as written.

A sort of step runs as written when it first comes: it learns, and connections, kernels and plans are there afterwards,
none of which can be made in a capture. When it comes again it is captured, by which nothing is computed or sent. So a
rank that fails leaves nobody waiting: the hosts meet once more, and where one has failed all give up capturing.
"""

from collections.abc import Callable

from yolofast.errors import in_one_line
from yolofast.precision import device_is_lost
from yolofast.ranks import largest_of_all
from yolofast.structures import Batch
from yolofast.train.gears.gear_box import GearBox
from yolofast.train.gears.gears import GraphGear, GraphPool, padding_slots_of, with_padding_slots
from yolofast.train.step import StepKind, TrainStep


class RanksGearBox(GearBox):
    """`run` makes a step of this rank's part of a batch; all ranks call it at once."""

    def __init__(
        self, step: TrainStep, images: int, steps: int, say: Callable[[str], None], *, one_shape: bool = True
    ) -> None:
        super().__init__(step, "graph", images, steps, say, one_shape=one_shape)
        self.compile_nothing()
        self._have_run: set[tuple[object, ...]] = set()

    def close(self) -> None:
        """Graphs hold on to the ranks' group, which ends after them."""
        super().close()
        self._plain, self._pool = self._eager, GraphPool()

    def _run(self, batch: Batch, kind: StepKind) -> None:
        graph, padded = self._plain, self._alike(batch)
        if isinstance(graph, GraphGear) and padded is not None and self._is_captured(graph, padded, kind):
            graph.run(padded, kind)
            self.now = "graph"
            return
        self._eager.run(batch if padded is None else padded, kind)
        if padded is not None:
            self.now = "eager"

    def _alike(self, batch: Batch) -> Batch | None:
        """With as many slots as those of all ranks; None unless all have the usual number of images, of one size."""
        shape = list(batch.images.shape)
        usual = shape[0] == self._images
        if self._plain is self._eager:
            return batch if usual else None
        slots, *found = largest_of_all(padding_slots_of(batch), *shape, *(-side for side in shape))
        most, least = found[: len(shape)], [-side for side in found[len(shape) :]]
        return with_padding_slots(batch, slots) if most == least and usual else None

    def _is_captured(self, graph: GraphGear, batch: Batch, kind: StepKind) -> bool:
        """Perhaps from now on."""
        if graph.has(batch, kind):
            return True
        step = self.step
        sort = (batch.images.shape, padding_slots_of(batch), kind, id(step.criterion), step.version)
        if sort not in self._have_run:
            self._have_run.add(sort)
            return False
        failure: Exception | None = None
        try:
            graph.capture(batch, kind, warm_up_runs=0)
        except Exception as error:  # noqa: BLE001 - whatever it is: if not the gear's fault, the lower one says so
            failure = error
        if failure is not None and device_is_lost(failure):
            raise failure
        if not largest_of_all(failure is not None)[0]:
            return True
        self._plain = self._eager
        why = "a rank cannot capture its step" if failure is None else in_one_line(failure)
        self._say(f"gear: {why}; all ranks continue in a lower gear")
        return False
