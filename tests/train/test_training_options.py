"""Options that change what is learnt work in a whole run, and a run with them that is stopped resumes exactly."""

import pytest
import torch

from tests.train.small_run import NETWORK, flags, state_of
from tests.train.test_resume import assert_same_state
from yolofast.cli import main
from yolofast.train.checkpoints import Checkpoints

pytestmark = pytest.mark.slow

HEADS = [[0, 1], [2, 3], [4, 5], [6, 7]]
# Each run has several options that do not exclude one another: a run costs seconds.
RUNS = {
    "adam, weighted images, sizes, balance": "--adam --image-weights --multi-scale --hyp {autobalance}",
    "adamw, rectangles": "--optimizer adamw --rect",
    "four as one, four heads": "--quad --cfg {four} --head-config {heads} --class-aware-aug",
}


@pytest.fixture(autouse=True)
def _one_thread():
    """Small tensors: threads would only wait for one another."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class StoppedError(Exception):
    pass


def run_to_first_checkpoint(monkeypatch, words):
    save = Checkpoints.save

    def save_and_stop(self, content, *names):
        save(self, content, *names)
        raise StoppedError

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", save_and_stop)
        with pytest.raises(StoppedError):
            main(words)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("options")
    (folder / "four.yaml").write_text(NETWORK.read_text().replace("IDetect", "MultiHeadDetect"))
    (folder / "autobalance.yaml").write_text("autobalance: true\n")
    heads = "".join(f"  head_{head}: {{classes: {classes}}}\n" for head, classes in enumerate(HEADS))
    (folder / "heads.yaml").write_text(f"nc: 8\nheads: 4\ngrouping: by hand\nhead_assignments:\n{heads}")
    return folder


@pytest.mark.parametrize("options", RUNS.values(), ids=RUNS.keys())
def test_a_stopped_run_resumes_exactly(folder, monkeypatch, options):
    monkeypatch.setenv("YOLOFAST_CACHE", str(folder / "cache"))
    name = str(list(RUNS.values()).index(options))
    files = {name: folder / f"{name}.yaml" for name in ("autobalance", "heads", "four")}
    words = options.format(**files).split()
    usual = [*flags(folder, epochs=2), "--no-plots"]
    assert main(["train", *usual, *words, "--name", f"whole{name}"]) == 0
    run_to_first_checkpoint(monkeypatch, ["train", *usual, *words, "--name", f"stopped{name}"])
    last = folder / "runs" / f"stopped{name}" / "weights" / "last.pt"
    first = torch.load(last, weights_only=True)
    assert first["next_epoch"] == 1
    assert main(["train", "--resume", str(last), "--no-plots"]) == 0
    whole, resumed = state_of(folder, f"whole{name}"), state_of(folder, f"stopped{name}")
    assert resumed["next_epoch"] == 2
    assert_same_state(resumed, whole)
    if "autobalance" in options:  # what was compared there has moved
        (balance,) = whole["run"]["losses"]["ota"]
        assert balance[1] == 1 and not torch.equal(balance, torch.tensor([4.0, 1.0, 0.4]))
        assert len(whole["run"]["class_maps"]) == 8
