"""How many of its own modules the package enters on the two walks every reader takes: to the first batch, and one turn.

Functions that are called count, imports do not: what an import runs is read by nobody who follows a call.
"""

import sys
from pathlib import Path
from types import FrameType

import pytest

import yolofast
from tests.train.small_run import flags
from yolofast.cli import main
from yolofast.train import loop

pytestmark = pytest.mark.slow

TO_THE_FIRST_BATCH = 90
ONE_TURN = 38
STEADY = 4
"""The turn that is traced: what the first ones build is there by then."""
PACKAGE = str(Path(yolofast.__file__).parent)


class Tracer:
    """The own modules whose functions this thread has entered since `start`."""

    def __init__(self) -> None:
        self.entered: set[str] = set()
        self._importing = 0

    def start(self) -> None:
        self.entered, self._importing = set(), 0
        sys.setprofile(self._look)

    def stop(self) -> set[str]:
        sys.setprofile(None)
        return self.entered

    def _look(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_name == "<module>":
            self._importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not self._importing and code.co_filename.startswith(PACKAGE):
            self.entered.add(code.co_filename.removeprefix(f"{PACKAGE}/"))


@pytest.fixture(scope="module")
def walks(tmp_path_factory):
    """The modules of both walks, of a run in which every batch makes an update."""
    folder, found, tracer = tmp_path_factory.mktemp("hops"), {}, Tracer()
    (folder / "hyp.yaml").write_text("nbs: 8\n")
    words = ["train", *flags(folder, epochs=2, hyp=folder / "hyp.yaml", gear="eager")]
    own_turn, turns = loop.turn, []

    def traced_turn(run, fetch, *rest, **more):
        def first_batch():
            batch = fetch()
            found["to the first batch"] = tracer.stop()
            return batch

        turns.append(more["iteration"])
        if len(turns) == STEADY:
            tracer.start()
        made = own_turn(run, first_batch if len(turns) == 1 else fetch, *rest, **more)
        if len(turns) == STEADY:
            assert made.kind.updates
            found["one turn"] = tracer.stop()
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "turn", traced_turn)
        tracer.start()
        try:
            assert main(words) == 0
        finally:
            tracer.stop()
    return found


@pytest.mark.parametrize(("walk", "most"), [("to the first batch", TO_THE_FIRST_BATCH), ("one turn", ONE_TURN)])
def test_few_modules_are_entered(walks, walk, most):
    assert len(walks[walk]) <= most, sorted(walks[walk])
