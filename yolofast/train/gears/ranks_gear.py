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
from yolofast.train.gears.gears import EagerGear, GraphGear, WorthTuning, padding_slots_of, with_padding_slots
from yolofast.train.step import StepKind, TrainStep


class RanksGear:
    """`run` makes a step of this rank's part of a batch; all ranks call it at once."""

    def __init__(
        self, step: TrainStep, images: int, say: Callable[[str], None], worth_tuning: WorthTuning = lambda batch: True
    ) -> None:
        """`images` are usual in this rank's part."""
        self.step, self._images, self._say = step, images, say
        self._eager = EagerGear(step, worth_tuning=worth_tuning)
        self._graph: GraphGear | None = GraphGear(step, worth_tuning=worth_tuning)
        self._have_run: set[tuple[object, ...]] = set()
        self.now = "eager"
        """The gear in which the last batch ran whose parts all had the usual size."""

    def close(self) -> None:
        """Graphs hold on to the ranks' group, which ends after them."""
        self._graph = None

    def run(self, batch: Batch, kind: StepKind) -> None:
        alike = None if self._graph is None else self._alike(batch)
        if self._graph is not None and alike is not None and self._is_captured(self._graph, alike, kind):
            self._graph.run(alike, kind)
            self.now = "graph"
            return
        self._eager.run(batch if alike is None else alike, kind)
        if alike is not None or self._graph is None:
            self.now = "eager"

    def _alike(self, batch: Batch) -> Batch | None:
        """With as many slots as those of all ranks; None unless all have the usual number of images, of one size."""
        shape = list(batch.images.shape)
        slots, *found = largest_of_all(padding_slots_of(batch), *shape, *(-side for side in shape))
        most, least = found[: len(shape)], [-side for side in found[len(shape) :]]
        return with_padding_slots(batch, slots) if most == least and shape[0] == self._images else None

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
            graph.capture(batch, kind)
        except Exception as error:  # noqa: BLE001 - whatever it is: if not the gear's fault, the lower one says so
            failure = error
        if failure is not None and device_is_lost(failure):
            raise failure
        if not largest_of_all(failure is not None)[0]:
            return True
        self.close()
        why = "a rank cannot capture its step" if failure is None else in_one_line(failure)
        self._say(f"gear: {why}; all ranks continue in a lower gear")
        return False
