"""Why two kinds of run cannot be judged by their accuracies, and what would help. More seeds would not."""

from collections.abc import Sequence

from yolofast.report.compare.comparability import TRAIN_LOSS, VAL_LOSS, accuracies, accuracies_differ, without_winner
from yolofast.report.compare.groups import Group
from yolofast.report.compare.summary import HOURS


def no_one_wins(groups: Sequence[Group]) -> dict[str, str]:
    """Rows of the summary -> why their values decide nothing."""
    reasons = without_winner([run for group in groups for run in group.runs])
    if any(_not_as_far(groups[0], other) for other in groups[1:]):
        reasons = dict.fromkeys((*accuracies(), TRAIN_LOSS, VAL_LOSS, HOURS), "not finished") | reasons
    return reasons


def obstacle(first: Group, other: Group) -> str:
    """Empty where nothing stands between them."""
    if other.copy_of == first.name:
        return f"the results of {other.name} are a copy of those of {first.name}. Train it with settings of its own"
    if reasons := accuracies_differ([*first.runs, *other.runs]):
        advice = "Evaluate both on the same images in the same way: `yolofast val --weights …/best.pt`"
        return f"{other.name} and {first.name} were evaluated differently ({', '.join(reasons)}). {advice}"
    return _not_as_far(first, other)


def _not_as_far(first: Group, other: Group) -> str:
    """Two that are not finished, but stopped at the same place of the same plan, are equally far."""
    early = [group for group in (first, other) if group.runs[0].unfinished]
    if not early or len({(int(run.epoch[-1]), run.number("epochs")) for run in (*first.runs, *other.runs)}) == 1:
        return ""
    names = " and ".join(group.name for group in early)
    return f"{names} {'is' if len(early) == 1 else 'are'} not finished. Let the training come to its end (`--resume`)"
