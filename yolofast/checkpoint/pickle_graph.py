"""Reads a pickle as inert data: a stack machine over an explicit table of opcodes that imports and calls nothing.

The published YOLOv7 files pickle whole modules, so `torch.load(weights_only=True)` refuses them and the plain
`torch.load` runs whatever they say. Here a class is a `Global`, an instance an `Object` and a function call a `Call`:
values to look at. Time and memory are bounded by `MAX_BYTES` and a budget of steps, whatever the bytes say.

`pickle.Unpickler` with stubs for classes would be shorter, but it hashes whatever a file uses as a dictionary key. A
tuple nested deeply enough then overflows the C stack, and integers chosen to collide take hours. Here keys are checked.
"""

import pickletools
from collections.abc import Callable, Hashable, Iterator
from typing import Any, BinaryIO

from yolofast.checkpoint.inert import Call, Global, Object, Persistent
from yolofast.checkpoint.refusals import CALLS, CLASS_MODULES, ENCODE, ORDERED_DICT, SETS, VALUES, damaged, refused
from yolofast.errors import UserError
from yolofast.files.budget import Budget

MAX_BYTES = 32 << 20
"""A pickle holds the structure, not the weights: 400 pickled convolution blocks, twice, take 1.2 MB."""
MAX_STEPS = 1_200_000
"""One byte can ask for a 200-byte set, so the size alone does not bound memory. Those 800 blocks take 490,000."""
MAX_INT_BITS = 256
"""Room for the 128-bit states of random generators."""
_MOST_KEY = 4096
"""Letters of a key or of a class's name: both are compared or copied as often as a file likes."""
_SET, _GLOBAL, _SET_ITEM = 5, 8, 4
"""Steps that they take beside the one of their instruction."""
_PROBES_PER_STEP = 16


def file_budget() -> Budget:
    """For all that is done with one file."""
    what = f"its values repeat one another without end: reading it would take more than {MAX_STEPS:,} steps"
    return Budget(MAX_STEPS, lambda: damaged(what))


def read_graph(stream: BinaryIO, budget: Budget, persistents: list[Persistent] | None = None) -> object:
    """The value of the pickle at the stream's position, which is left behind its last byte.

    `persistents`, when given, receives every reference to outside data, used or not.
    """
    machine = _Machine([] if persistents is None else persistents, budget)
    for name, argument in _opcodes(stream):
        budget.spend()
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
    while True:
        try:
            opcode, argument, _ = next(tokens)
        except StopIteration:
            return
        except (ValueError, OverflowError, MemoryError, Warning) as error:  # a warning raises under `python -W error`
            raise damaged("its pickle is cut or overwritten") from error
        yield opcode.name, argument


class _Machine:
    """The pickle stack. `_outer` holds the stacks below each open mark, as in the standard unpickler."""

    def __init__(self, persistents: list[Persistent], budget: Budget) -> None:
        self.persistents, self.budget = persistents, budget
        self.stack: list[object] = []
        self.memo: dict[str, object] = {}  # by text, whose hash is secret: numbers can be chosen to collide
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
        self.memo[str(index)] = self.top()

    def get(self, index: int) -> None:
        if str(index) not in self.memo:
            raise damaged("its pickle refers to a value that was never stored")
        self.push(self.memo[str(index)])

    def fill(self, items: list[object], target: object) -> object:
        if not isinstance(target, dict) or len(items) % 2:
            raise damaged("its pickle sets items of something that is not a dictionary")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[self._key(key, len(target))] = value
        return target

    def add(self, items: list[object], target: object) -> None:
        if not isinstance(target, set):
            raise damaged("its pickle adds to something that is not a set")
        for item in items:
            target.add(self._key(item, len(target)))

    def _key(self, value: object, others: int) -> Hashable:
        """Only keys that hash in constant time: a deep tuple would overflow the C stack.

        Numbers and tuples of them can be chosen to meet all others that are there, so they pay for that; but not a
        list's places, 0, 1, 2 …, which meet nothing.
        """
        if isinstance(value, tuple) and len(value) <= 16:
            self.budget.spend(others // _PROBES_PER_STEP)
            return tuple(_scalar_key(item) for item in value)
        if isinstance(value, int | float) and value != others:
            self.budget.spend(others // _PROBES_PER_STEP)
        return _scalar_key(value)

    def set_of(self, items: list[object]) -> set[object]:
        self.budget.spend(_SET + _SET_ITEM * len(items))  # the same list may be copied again and again
        made: set[object] = set()
        self.add(items, made)
        return made

    def name(self, module: object, name: object) -> Global:
        self.budget.spend(_GLOBAL)
        return _global(module, name)

    def call(self, function: object, args: object) -> object:
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
            return self.set_of(args[0] if args else [])
        if function.path == ENCODE and args[1:] != ("latin1",):
            raise refused("a text encoding other than latin1")
        return Call(function, args)


def _scalar_key(value: object) -> Hashable:
    if isinstance(value, int) and value.bit_length() > 64:
        raise damaged("a dictionary key is an impossibly large integer")
    if isinstance(value, str | bytes) and len(value) > _MOST_KEY:
        raise damaged("a dictionary key is impossibly long")
    if value is None or isinstance(value, int | float | str | bytes | Global | Call | Object | Persistent):
        return value
    raise damaged(f"a {type(value).__name__} is used as a dictionary key")


def _extend(items: list[object], target: object) -> None:
    if not isinstance(target, list):
        raise damaged("its pickle appends to something that is not a list")
    target.extend(items)


def _integer(machine: _Machine, value: int) -> None:
    if value.bit_length() > MAX_INT_BITS:
        raise damaged("it holds an impossibly large integer")
    machine.push(value)


def _global(module: object, name: object) -> Global:
    if not isinstance(module, str) or not isinstance(name, str):
        raise damaged("its pickle names a class with something that is not text")
    if len(module) + len(name) > _MOST_KEY:
        raise damaged("its pickle names a class with an impossibly long text")
    mention = Global(module, name)
    if not (mention.path in CALLS or mention.path in VALUES or mention.path.startswith(CLASS_MODULES)):
        raise refused(mention.path)
    return mention


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
        case tuple() as parts if any(isinstance(part, str) and len(part) > _MOST_KEY for part in parts[:5]):
            raise damaged("the name of a storage is impossibly long")
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
    "DICT": lambda m, a: m.push(m.fill(m.pop_mark(), {})),
    "SETITEM": lambda m, a: m.fill(m.pop(2), m.top()),
    "SETITEMS": lambda m, a: m.fill(m.pop_mark(), m.top()),
    "EMPTY_SET": lambda m, a: m.push(m.set_of([])),
    "ADDITEMS": lambda m, a: m.add(m.pop_mark(), m.top()),
    "FROZENSET": lambda m, a: m.push(frozenset(m.set_of(m.pop_mark()))),
    "GLOBAL": lambda m, a: m.push(m.name(*a.split(" ", 1))),
    "STACK_GLOBAL": lambda m, a: m.push(m.name(*m.pop(2))),
    "REDUCE": lambda m, a: m.push(m.call(*m.pop(2))),
    "NEWOBJ": lambda m, a: m.push(_object(*m.pop(2))),
    "NEWOBJ_EX": lambda m, a: m.push(_object(*m.pop(3))),
    "BUILD": lambda m, a: _build(m.pop(1)[0], m.top()),
    "BINPERSID": lambda m, a: _persistent(m),
}
