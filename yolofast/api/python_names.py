"""Messages for callers from Python: settings by the names they have there, where a command would name its flags.

Everything below the API raises one message for both. `--batch-size 8` becomes `batch_size=8`, `--single-cls` in a fix
`single_cls=True`; commands that a message says to type stay as they are.
"""

import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import ParamSpec, TypeVar

from yolofast.config.commands import COMMANDS
from yolofast.config.flags import python_name
from yolofast.config.settings import Setting, Settings, choices, is_switch, settings_of
from yolofast.errors import UserError, nearest

Args = ParamSpec("Args")
Result = TypeVar("Result")
Item = TypeVar("Item")
_OF_METHODS = ("train", "val", "predict", "track")
"""The commands whose settings the API takes."""
_FLAG = re.compile(r"(?<![\w-])(--[a-zA-Z][\w-]*)(?:([ =])([^\s,;:()`]+))?")
_COMMAND = re.compile(rf"yolofast (?:{'|'.join(command.name for command in COMMANDS)})\b[^`;]*")
_VALUE = re.compile(r"cpu|[A-Z_]+|\S*[\d./=]\S*")
"""What follows a flag and is meant for it, rather than the next word of a sentence."""


def spoken_in_python(
    function: Callable[Args, Result], renamed: Mapping[str, str] | None = None
) -> Callable[Args, Result]:
    """The same function, whose `UserError`s name no flags. `renamed` are settings that it calls otherwise.

    A setting that it does not have, or one that is missing, is a `UserError` too, not Python's own words.
    """
    signature = inspect.signature(function)
    known = signature.parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in known.values())

    @functools.wraps(function)
    def called(*args: Args.args, **kwargs: Args.kwargs) -> Result:
        if not takes_any:
            refuse_unknown(kwargs, [name for name in known if name != "self"], renamed or {})
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise _miscalled(function.__qualname__, error, known.values()) from None
        try:
            return function(*args, **kwargs)
        except UserError as error:
            reword(error, renamed or {})
            raise

    return called


def _miscalled(name: str, error: TypeError, known: Iterable[inspect.Parameter]) -> UserError:
    """Values without a name where there is none to take them, or too few of them."""
    if "'self'" in str(error):
        return UserError(f"{name} is called without a detector", fix='make one first: Detector("best.pt")')
    takes = [f"{one.name}=…" for one in known if one.name != "self" and one.kind is not one.VAR_KEYWORD]
    more = [] if all(one.kind is not one.VAR_KEYWORD for one in known) else ["setting=value"]
    return UserError(f"{name}: {error}", fix=f"give values by name: {', '.join([*takes, *more])}")


def refuse_unknown(settings: Iterable[str], known: Collection[str], renamed: Mapping[str, str]) -> None:
    """Raises `UserError` for a setting that is none of those known."""
    for name in settings:
        if name not in known:
            meant = f", did you mean {renamed[name]!r}?" if renamed.get(name) in known else nearest(name, known)
            raise UserError(f"there is no setting {name!r}{meant}", fix=f"it takes {', '.join(known)}")


def items_in_python(items: Iterator[Item], renamed: Mapping[str, str] | None = None) -> Iterator[Item]:
    """As `spoken_in_python`, for what is raised while items are taken."""
    try:
        yield from items
    except UserError as error:
        reword(error, renamed or {})
        raise


def reword(error: UserError, renamed: Mapping[str, str]) -> None:
    fix = None if error.fix is None else _in_python(error.fix, renamed, is_fix=True)
    error.say(_in_python(error.what, renamed, is_fix=False), fix)


def _in_python(text: str, renamed: Mapping[str, str], *, is_fix: bool) -> str:
    parts, end = [], 0
    for command in _COMMAND.finditer(text):
        parts += [_without_flags(text[end : command.start()], renamed, is_fix), command[0]]
        end = command.end()
    return "".join([*parts, _without_flags(text[end:], renamed, is_fix)])


def _without_flags(text: str, renamed: Mapping[str, str], is_fix: bool) -> str:
    def one(found: re.Match[str]) -> str:
        flag, separator, word = found[1], found[2] or "", found[3] or ""
        known = _flags().get(flag)
        name = renamed.get(python_name(flag), python_name(flag))
        if known is None:
            return name + separator + word
        config_class, field, declared = known
        if flag in declared.shortcuts:
            name, value = renamed.get(field, field), declared.shortcuts[flag]
            return f"{name}={value!r}{separator}{word}".replace("'", '"')
        if is_switch(config_class, field):
            return f"{name}{'=True' if is_fix else ''}{separator}{word}"
        if word and (word in choices(config_class, field) or _VALUE.fullmatch(word)):
            return f"{name}={word if _is_number(word) else _quoted(word)}"
        return name + separator + word

    return _FLAG.sub(one, text)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _quoted(word: str) -> str:
    return f'"{word.strip(chr(34) + chr(39))}"'


@functools.cache
def _flags() -> dict[str, tuple[type[Settings], str, Setting]]:
    """By flag; of one that several commands have, that of the first."""
    found: dict[str, tuple[type[Settings], str, Setting]] = {}
    for command in COMMANDS:
        for field, declared in settings_of(command.settings).items() if command.name in _OF_METHODS else ():
            for flag in (*declared.flags, *declared.shortcuts):
                found.setdefault(flag, (command.settings, field, declared))
    return found


def method_in_python(**renamed: str) -> Callable[[Callable[Args, Result]], Callable[Args, Result]]:
    """`spoken_in_python` as a decorator."""
    return lambda function: spoken_in_python(function, renamed)
