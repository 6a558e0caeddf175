"""Flags that are accepted so that old commands run, but do nothing: now, or ever. Commands warn of the first kind."""

from typing import Literal

from yolofast.config.run import RunConfig
from yolofast.config.setting import settings_of

NOT_YET_USED = ("bucket",)
"""Names of fields; delete a name when it is implemented."""

WITHOUT_EFFECT = ("local_rank", "print_stage_summary", "no_trace", "update")
"""There is nothing here for these to do; their help says why."""


def use_of(name: str) -> Literal["yes", "not yet used", "no effect"]:
    return "not yet used" if name in NOT_YET_USED else "no effect" if name in WITHOUT_EFFECT else "yes"


def unused_flags(config: RunConfig) -> list[str]:
    """Flags the user has set and which are not used yet, for a warning."""
    declared, usual = settings_of(type(config)), type(config)()
    names = [name for name in NOT_YET_USED if name in declared]
    return [declared[name].flag for name in names if getattr(config, name) != getattr(usual, name)]
