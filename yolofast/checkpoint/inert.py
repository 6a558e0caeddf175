"""What a pickle says, as values to look at: names, calls that never happen, objects that are never made.

Their representation is short on purpose. What they hold may hold the same values again and again, and messages show
values of a file: 449 bytes would be gigabytes when written out.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Global:
    """The name of a class or function. Only a name."""

    module: str
    name: str

    @property
    def path(self) -> str:
        """The full dotted name."""
        return f"{self.module}.{self.name}"


@dataclass(eq=False, slots=True)
class Call:
    """What would have been the result of calling `function` with `args`."""

    function: Global
    args: tuple[object, ...]
    state: object = None

    def __repr__(self) -> str:
        return f"{self.function.path}(…)"


@dataclass(eq=False, slots=True)
class Object:
    """What would have been an instance of `cls`; `state` is its attribute dict."""

    cls: Global
    args: tuple[object, ...]
    state: object = None

    def __repr__(self) -> str:
        return f"{self.cls.path}(…)"


@dataclass(eq=False, slots=True)
class Persistent:
    """A reference to data outside the pickle: in torch files, a storage."""

    id: object

    def __repr__(self) -> str:
        return "a storage"
