"""How a field of a configuration is declared: its default, and all that flags, messages and documentation need.

A field's type says what its values are; everything else stands in its `Setting`, in the dataclass field's metadata. So
a flag is added, renamed or documented in one place.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WITHOUT_EFFECT = ("local_rank", "bucket", "print_stage_summary", "no_trace", "update")
"""Fields whose flags are accepted so that old commands run; their help says why there is nothing to do."""
_KEY = "setting"
_AS_DEFAULT = object()


@dataclass(frozen=True, kw_only=True)
class Setting:
    flags: tuple[str, ...]
    """Spellings; the first is the one messages and documentation use."""
    help: str
    section: str
    published: Any
    """What the published script does if the flag is not given."""
    published_flag: str | None = None
    """The flag of the published script that sets this, if it has one."""
    shortcuts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Further flags, without an argument, and the value each stands for: `--adam`."""
    bare: Any = None
    """The value of the flag when nothing follows it; None where something must."""
    metavar: str | None = None
    among: Mapping[str, object] | None = None
    """Of a text: the table whose keys it may be."""
    least: float | None = None
    above: float | None = None
    most: float | None = None
    special: tuple[int, ...] = ()
    """Numbers allowed outside the range: -1 for `find it yourself`."""
    counts: tuple[int, int] = (1, 10_000)
    """Of a tuple: how many values it may have."""
    adds_up: bool = False
    """Whether a flag that is given again adds values to the earlier ones, instead of taking their place."""
    changes_on_resume: bool = False
    """Whether a resumed run may have another value: it must not change what is learnt."""

    @property
    def flag(self) -> str:
        return self.flags[0]


def setting(
    default: Any,
    *flags: str,
    published: Any = _AS_DEFAULT,
    yolov7: bool | str = False,
    **details: Any,
) -> Any:
    """A dataclass field. `yolov7`: the published script has the first flag, or the one named."""
    details["published"] = default if published is _AS_DEFAULT else published
    if yolov7:
        details["published_flag"] = yolov7 if isinstance(yolov7, str) else flags[0]
    details["shortcuts"] = dict(details.get("shortcuts", {})) | _off_switch(default, flags, details)
    return dataclasses.field(default=default, metadata={_KEY: Setting(flags=flags, **details)})


def _off_switch(default: Any, flags: tuple[str, ...], details: Mapping[str, Any]) -> dict[str, bool]:
    """`--no-x`, for what is on by default somewhere and has no name for being off."""
    on_somewhere = default is True or details["published"] is True
    named = False in details.get("shortcuts", {}).values()
    return {flags[0].replace("--", "--no-", 1): False} if on_somewhere and not named else {}


def settings_of(config_class: type[Any]) -> dict[str, Setting]:
    """By field name, in the order of the fields."""
    return {field.name: field.metadata[_KEY] for field in dataclasses.fields(config_class)}
