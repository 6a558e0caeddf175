"""Two processes on halves of a batch are one process on all of it.

BatchNorm over all ranks is on in these runs (`--sync-bn`), without which a rank normalises its own half; on the CPU it
is our own module, because torch's SyncBatchNorm runs on GPUs only. What GPUs add – NCCL, SyncBatchNorm – is not tested.
"""

import pytest
import torch

from tests.train.batch_norm_parts import normalised
from tests.train.two_ranks import LOSSES, PARTS, deep_config, loss_of, seen, seen_by_two, seen_in_double, small_config

pytestmark = pytest.mark.slow

STEPS = 9


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    plan = folder / "plan.yaml"
    plan.write_text("plan: [{until: 1, train: [head]}, {lr_factors: {backbone: 0.5}}]")  # ranks are joined anew
    config = small_config(folder, sync_bn=True, epochs=STEPS // 3, plan=str(plan))
    threads = torch.get_num_threads()
    alone = {**seen(config), "deep": seen_in_double(deep_config(config))}
    torch.set_num_threads(threads)
    return alone, seen_by_two(config, folder)


def test_the_same_loss_curve(both):
    """With gradients summed over batches, batches of an update of their own, and last batches that are smaller."""
    alone, together = both[0]["losses"], both[1]["run"]["losses"]
    assert len(alone) == len(together) == STEPS
    for name in ("box", "obj", "cls", "total"):
        assert [step[name] for step in together] == pytest.approx([step[name] for step in alone], rel=1e-4)
    assert alone[-1]["total"] != pytest.approx(alone[2]["total"], rel=1e-2), "it has learnt nothing"


@pytest.mark.parametrize("what", ["weights", "statistics"])
def test_the_same_network_afterwards(both, what):
    alone, together = both[0][what], both[1]["run"][what]
    assert (alone - together).norm() < 1e-5 * alone.norm()


def test_a_deep_network_in_double_precision_is_the_same(both):
    """What two ranks compute is what one does: in float32 such a network leaves itself within a few steps, even from
    one thread to two, because every update amplifies what was rounded (docs/distributed.md)."""
    alone, together = both[0]["deep"], both[1]["deep"]
    for name in ("box", "obj", "cls", "total"):
        found, expected = ([step[name] for step in run["losses"]] for run in (together, alone))
        assert len(found) == 3 and found == pytest.approx(expected, rel=1e-9)
    for what in ("weights", "statistics"):
        assert alone[what].dtype is torch.float64
        assert (together[what] - alone[what]).norm() < 1e-9 * alone[what].norm(), what


@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-12), ("float32", 5e-6), ("bfloat16", 0.02)])
def test_batch_norm_over_ranks_is_that_of_the_whole_batch(both, precision, tolerance):
    """Unequal parts; compared with torch's own layer in double precision."""
    whole, ranks = normalised(slice(None), "float64", precision), both[1]["layers"][precision]
    expected = {name: torch.tensor(value, dtype=torch.float64) for name, value in whole.items()}
    for name in ("made", "gradient"):
        found = torch.cat([torch.tensor(rank[name], dtype=torch.float64) for rank in ranks])
        assert (found - expected[name]).abs().max() < tolerance * expected[name].abs().max(), name
    for name in ("weight", "bias"):
        found = sum(torch.tensor(rank[name], dtype=torch.float64) for rank in ranks)
        assert (found - expected[name]).abs().max() < tolerance * expected[name].abs().max(), name
    for name in ("mean", "variance"):
        for rank in ranks:
            torch.testing.assert_close(
                torch.tensor(rank[name], dtype=torch.float64), expected[name], rtol=tolerance, atol=0
            )


def test_the_same_evaluation_to_the_last_digit(both):
    alone, together = both[0]["evaluation"], both[1]["run"]["evaluation"]
    assert torch.tensor(alone["ap"]).max() > 0 and torch.tensor(alone["confusion"])[:-1, :-1].sum() > 0
    assert together == alone


def test_rows_are_those_of_all_ranks(both):
    alone, together = both[0]["rows"], both[1]["run"]["rows"]
    assert [row["train/box_loss"] for row in together] == pytest.approx([row["train/box_loss"] for row in alone], 1e-4)


def test_a_loss_that_is_no_number_on_one_rank_is_known_to_all(both):
    assert both[1]["worst"] == 1


@pytest.mark.parametrize("kind", LOSSES)
def test_fixed_losses_are_divided_by_the_counts_of_the_whole_batch(both, kind):
    """So the mean over the ranks is the loss of the whole, and gradients averaged over the ranks are its gradients."""
    whole = loss_of(kind, faithful=False)
    ranks = [rank[kind] for rank in both[1]["fixed"]]
    assert sum(rank["total"] for rank in ranks) / 2 == pytest.approx(whole.total, rel=1e-5)
    for name, value in whole.parts.items():
        assert sum(rank["parts"][name] for rank in ranks) / 2 == pytest.approx(value, rel=1e-5), name
    for level, gradient in enumerate(whole.gradients):
        found = torch.tensor([value for rank in ranks for value in rank["gradients"][level]]) / 2
        torch.testing.assert_close(found, torch.tensor(gradient), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("kind", LOSSES)
def test_faithful_losses_know_only_their_own_part(both, kind):
    """YOLOv7's is multiplied by the number of ranks, so that averaged gradients are sums, as published."""
    factor = 1 if kind.startswith("yolox") else 2
    for part, found in zip(PARTS, both[1]["faithful"], strict=True):
        alone = loss_of(kind, True, part)
        assert found[kind]["total"] == pytest.approx(factor * alone.total, rel=1e-6)
        assert found[kind]["parts"] == pytest.approx(alone.parts, rel=1e-6)
