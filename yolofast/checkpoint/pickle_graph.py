"""Reads a pickle as inert data: a stack machine over an explicit table of opcodes that imports and calls nothing.

The published YOLOv7 files pickle whole modules, so `torch.load(weights_only=True)` refuses them and the plain
`torch.load` runs whatever they say. Here a class is a `Global`, an instance an `Object` and a function call a `Call`:
values to look at. Time and memory are bounded by `MAX_BYTES` and `MAX_OPCODES`, whatever the bytes say.

`pickle.Unpickler` with stubs for classes would be shorter, but it hashes whatever a file uses as a dictionary key. A
tuple nested deeply enough then overflows the C stack, and integers chosen to collide take hours. Here keys are checked.
"""

import pickletools
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from yolofast.checkpoint.refusals import CALLS, CLASS_MODULES, ENCODE, ORDERED_DICT, SETS, VALUES, damaged, refused
from yolofast.errors import UserError

MAX_BYTES = 64 << 20
"""A pickle holds the structure, not the weights: 400 pickled convolution blocks, twice, take 1.2 MB."""
MAX_OPCODES = 2_500_000
"""One byte can ask for a 200-byte set, so the size alone does not bound memory. Those 800 blocks take 490,000."""
MAX_INT_BITS = 256
"""Room for the 128-bit states of random generators."""


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


@dataclass(eq=False, slots=True)
class Object:
    """What would have been an instance of `cls`; `state` is its attribute dict."""

    cls: Global
    args: tuple[object, ...]
    state: object = None


@dataclass(eq=False, slots=True)
class Persistent:
    """A reference to data outside the pickle: in torch files, a storage."""

    id: object


def read_graph(stream: BinaryIO, persistents: list[Persistent] | None = None) -> object:
    """The value of the pickle at the stream's position, which is left behind its last byte.

    `persistents`, when given, receives every reference to outside data, used or not.
    """
    machine = _Machine([] if persistents is None else persistents)
    for name, argument in _opcodes(stream):
        if name == "STOP":
            return machine.pop(1)[0]
        handler = _HANDLERS.get(name)
        if handler is None:
            raise UserError(
                f"the file uses the pickle opcode {name}, which no torch file needs",
                fix="save the weights again with torch.save, or as safetensors",
            )
        handler(machine, argument)
    raise damaged("its pickle has no end")


def _opcodes(stream: BinaryIO) -> Iterator[tuple[str, Any]]:
    """The tokens, with every way tokenising can fail said as damage."""
    tokens = pickletools.genops(stream)
    for _ in range(MAX_OPCODES):
        try:
            opcode, argument, _ = next(tokens)
        except StopIteration:
            return
        except (ValueError, OverflowError, MemoryError, Warning) as error:  # a warning raises under `python -W error`
            raise damaged("its pickle is cut or overwritten") from error
        yield opcode.name, argument
    raise damaged(f"its pickle has more than {MAX_OPCODES:,} instructions")


class _Machine:
    """The pickle stack. `_outer` holds the stacks below each open mark, as in the standard unpickler."""

    def __init__(self, persistents: list[Persistent]) -> None:
        self.persistents = persistents
        self.stack: list[object] = []
        self.memo: dict[int, object] = {}
        self._outer: list[list[object]] = []

    def push(self, value: object) -> None:
        self.stack.append(value)

    def pop(self, count: int) -> list[object]:
        """The last values, in the order they were pushed."""
        if len(self.stack) < count:
            raise damaged("its pickle takes a value that is not there")
        items = self.stack[-count:]
        del self.stack[-count:]
        return items

    def top(self) -> object:
        if not self.stack:
            raise damaged("its pickle needs a value that is not there")
        return self.stack[-1]

    def mark(self) -> None:
        self._outer.append(self.stack)
        self.stack = []

    def pop_mark(self) -> list[object]:
        if not self._outer:
            raise damaged("its pickle closes a group that is not open")
        items, self.stack = self.stack, self._outer.pop()
        return items

    def put(self, index: int) -> None:
        if not 0 <= index < 1 << 32:
            raise damaged("its pickle has an impossible memo index")
        self.memo[index] = self.top()

    def get(self, index: int) -> None:
        if index not in self.memo:
            raise damaged("its pickle refers to a value that was never stored")
        self.push(self.memo[index])


def _key(value: object) -> Hashable:
    """Only keys that hash in constant time: a deep tuple would overflow the C stack, huge ints collide at will."""
    if isinstance(value, tuple) and len(value) <= 16:
        return tuple(_scalar_key(item) for item in value)
    return _scalar_key(value)


def _scalar_key(value: object) -> Hashable:
    if isinstance(value, int) and value.bit_length() > 64:
        raise damaged("a dictionary key is an impossibly large integer")
    if value is None or isinstance(value, int | float | str | bytes | Global | Call | Object | Persistent):
        return value
    raise damaged(f"a {type(value).__name__} is used as a dictionary key")


def _fill(items: list[object], target: object) -> object:
    if not isinstance(target, dict) or len(items) % 2:
        raise damaged("its pickle sets items of something that is not a dictionary")
    target.update((_key(key), value) for key, value in zip(items[::2], items[1::2], strict=True))
    return target


def _extend(items: list[object], target: object) -> None:
    if not isinstance(target, list):
        raise damaged("its pickle appends to something that is not a list")
    target.extend(items)


def _add(items: list[object], target: object) -> None:
    if not isinstance(target, set):
        raise damaged("its pickle adds to something that is not a set")
    target.update(map(_key, items))


def _integer(machine: _Machine, value: int) -> None:
    if value.bit_length() > MAX_INT_BITS:
        raise damaged("it holds an impossibly large integer")
    machine.push(value)


def _global(module: object, name: object) -> Global:
    if not isinstance(module, str) or not isinstance(name, str):
        raise damaged("its pickle names a class with something that is not text")
    mention = Global(module, name)
    if not (mention.path in CALLS or mention.path in VALUES or mention.path.startswith(CLASS_MODULES)):
        raise refused(mention.path)
    return mention


def _call(function: object, args: object) -> object:
    """Containers become containers, because later opcodes fill them; everything else stays a `Call`."""
    if not isinstance(function, Global) or not isinstance(args, tuple):
        raise refused("a call of something that is not a named function")
    if function.path not in CALLS:
        raise refused(f"a call of {function.path}")
    if function.path == ORDERED_DICT:
        if args:
            raise damaged("an OrderedDict is made from arguments")
        return {}
    if function.path in SETS:
        if len(args) > 1 or not all(isinstance(items, list) for items in args):
            raise damaged("a set is made from something that is not a list")
        return {_key(item) for items in args for item in items}
    if function.path == ENCODE and args[1:] != ("latin1",):
        raise refused("a text encoding other than latin1")
    return Call(function, args)


def _object(cls: object, args: object, _keywords: object = None) -> Object:
    """No class of the list has keyword arguments that matter for weights."""
    if not isinstance(cls, Global) or not isinstance(args, tuple):
        raise refused("an object of something that is not a named class")
    if not cls.path.startswith(CLASS_MODULES):
        raise refused(f"an object of {cls.path}")
    return Object(cls, args)


def _build(state: object, target: object) -> None:
    if isinstance(target, Call | Object):
        target.state = state
    elif not isinstance(target, dict):  # a dict is an OrderedDict, whose state is the `_metadata` of a state dict
        raise damaged("its pickle sets attributes of a plain value")


def _persistent(machine: _Machine) -> None:
    """Old files wrap the class of a module, with its source text, in such a reference: only the name is kept."""
    match machine.pop(1)[0]:
        case ("module", Global() as cls, *_):
            machine.push(cls)
        case reference:
            machine.persistents.append(Persistent(reference))
            machine.push(machine.persistents[-1])


_PUSHED = ("BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8")
_HANDLERS: dict[str, Callable[[_Machine, Any], object]] = {
    **dict.fromkeys(("PROTO", "FRAME"), lambda m, a: None),
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1", "LONG4"), _integer),
    **dict.fromkeys(_PUSHED, _Machine.push),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), _Machine.put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _Machine.get),
    "MEMOIZE": lambda m, a: m.put(len(m.memo)),
    "NONE": lambda m, a: m.push(None),
    "NEWTRUE": lambda m, a: m.push(True),
    "NEWFALSE": lambda m, a: m.push(False),
    "MARK": lambda m, a: m.mark(),
    "POP": lambda m, a: m.pop(1),
    "POP_MARK": lambda m, a: m.pop_mark(),
    "DUP": lambda m, a: m.push(m.top()),
    "EMPTY_LIST": lambda m, a: m.push([]),
    "LIST": lambda m, a: m.push(m.pop_mark()),
    "APPEND": lambda m, a: _extend(m.pop(1), m.top()),
    "APPENDS": lambda m, a: _extend(m.pop_mark(), m.top()),
    "EMPTY_TUPLE": lambda m, a: m.push(()),
    "TUPLE": lambda m, a: m.push(tuple(m.pop_mark())),
    "TUPLE1": lambda m, a: m.push(tuple(m.pop(1))),
    "TUPLE2": lambda m, a: m.push(tuple(m.pop(2))),
    "TUPLE3": lambda m, a: m.push(tuple(m.pop(3))),
    "EMPTY_DICT": lambda m, a: m.push({}),
    "DICT": lambda m, a: m.push(_fill(m.pop_mark(), {})),
    "SETITEM": lambda m, a: _fill(m.pop(2), m.top()),
    "SETITEMS": lambda m, a: _fill(m.pop_mark(), m.top()),
    "EMPTY_SET": lambda m, a: m.push(set()),
    "ADDITEMS": lambda m, a: _add(m.pop_mark(), m.top()),
    "FROZENSET": lambda m, a: m.push(frozenset(map(_key, m.pop_mark()))),
    "GLOBAL": lambda m, a: m.push(_global(*a.split(" ", 1))),
    "STACK_GLOBAL": lambda m, a: m.push(_global(*m.pop(2))),
    "REDUCE": lambda m, a: m.push(_call(*m.pop(2))),
    "NEWOBJ": lambda m, a: m.push(_object(*m.pop(2))),
    "NEWOBJ_EX": lambda m, a: m.push(_object(*m.pop(3))),
    "BUILD": lambda m, a: _build(m.pop(1)[0], m.top()),
    "BINPERSID": lambda m, a: _persistent(m),
}
