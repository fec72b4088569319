# SPDX-License-Identifier: Apache-2.0
"""Pickles as data: an interpreter of the opcodes that build numbers, text and containers.

Names of a pickle (of classes and functions) stay names: nothing is imported, called or changed but by the two
functions that the caller gives. An opcode outside the list below is an error. Memory and time are bounded by
the length of the pickle.

Source: the opcodes as documented by the standard library's `pickletools`.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable
from typing import Any, NamedTuple


class Name(NamedTuple):
    """A class or function as a pickle names it."""

    module: str
    name: str


class NotData(ValueError):
    """The pickle holds something else than data."""


class Malformed(ValueError):
    """The pickle is damaged; the message has the byte at which the reader stopped."""


Construct = Callable[[Name, tuple[Any, ...]], Any]
"""Makes what a pickle gets by calling `name` with data."""
SetState = Callable[[Any, Any], None]
"""Gives an object that `Construct` made its state."""

_KEYS = (str, int, float, bytes, type(None))
_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg"}  # as Python 2 called them
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_VALUES = frozenset(
    ("INT", "LONG", "LONG1", "LONG4", "BININT", "BININT1", "BININT2", "FLOAT", "BINFLOAT", "STRING",
     "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8", "UNICODE",
     "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")
)  # fmt: skip
_NOTHING = frozenset(("PROTO", "FRAME"))


def load(data: bytes | bytearray, construct: Construct, set_state: SetState) -> Any:
    """What a pickle describes.

    Parameters
    ----------
    construct, set_state
        Called for the pickle's calls and states; they raise NotData for what they do not know.

    Raises
    ------
    NotData  it needs more than data; the message has the byte, and the opcode or name
    Malformed  it is damaged
    """
    machine, file, position = _Machine(construct, set_state), io.BytesIO(data), 0
    try:
        for opcode, argument, _ in pickletools.genops(file):
            if opcode.name == "STOP":
                return machine.pop()
            machine.step(opcode.name, argument)
            position = file.tell()  # of the next opcode
    except NotData as error:
        raise NotData(f"byte {position}: {error}") from None
    except (ValueError, LookupError, TypeError, RecursionError, OverflowError) as error:
        said = f"{type(error).__name__}: {error}" if isinstance(error, (LookupError, TypeError)) else error
        raise Malformed(f"byte {position} of {len(data)}: not a valid pickle: {said}") from None
    raise Malformed("no end")  # genops has said so already


class _Machine:
    """The stack and the memo of a pickle that is being read."""

    def __init__(self, construct: Construct, set_state: SetState) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self._construct = construct
        self._set_state = set_state

    def step(self, opcode: str, argument: Any) -> None:
        """Does what one opcode says."""
        if opcode in _CONSTANTS:
            self.stack.append(_CONSTANTS[opcode])
        elif opcode in _VALUES:
            self.stack.append(argument)
        elif opcode not in _NOTHING:
            if opcode not in _ACTIONS:
                raise NotData(f"{opcode} is not allowed")
            _ACTIONS[opcode](self, argument)

    def pop(self) -> Any:
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise ValueError("the stack is empty")
        return self.stack.pop()

    def top(self, kind: type) -> Any:
        if not self.stack or type(self.stack[-1]) is not kind:
            raise ValueError(f"expected a {kind.__name__} on the stack")
        return self.stack[-1]

    def last(self) -> Any:
        if not self.stack:
            raise ValueError("the stack is empty")
        return self.stack[-1]

    def pop_mark(self) -> list[Any]:
        if not self.marks:
            raise ValueError("expected a mark on the stack")
        mark = self.marks.pop()
        items = self.stack[mark:]
        del self.stack[mark:]
        return items

    def several(self, count: int) -> None:
        self.stack.append(tuple([self.pop() for _ in range(count)][::-1]))

    def put(self, key: int) -> None:
        self.memo[key] = self.last()

    def get(self, key: int) -> None:
        if key not in self.memo:
            raise ValueError(f"value {key} is used before it is kept")
        self.stack.append(self.memo[key])

    def set_items(self, items: list[Any]) -> None:
        _fill(self.top(dict), items)

    def set_item(self) -> None:
        value, key = self.pop(), self.pop()
        self.set_items([key, value])

    def append(self, items: list[Any]) -> None:
        self.top(list).extend(items)

    def global_name(self, module: Any, name: Any) -> None:
        if not (isinstance(module, str) and isinstance(name, str)):
            raise ValueError("a name that is not text")
        self.stack.append(Name(_MODULES.get(module, module), name))

    def stack_global(self) -> None:
        name, module = self.pop(), self.pop()
        self.global_name(module, name)

    def call(self) -> None:
        arguments, function = self.pop(), self.pop()
        if type(function) is not Name or type(arguments) is not tuple:
            raise NotData(f"a call of {type(function).__name__} is not allowed")
        self.stack.append(self._construct(function, arguments))

    def build(self) -> None:
        state = self.pop()
        self._set_state(self.last(), state)


def _fill(target: dict[Any, Any], items: list[Any]) -> dict[Any, Any]:
    if len(items) % 2:
        raise ValueError("a key without a value")
    for key, value in zip(items[::2], items[1::2], strict=True):
        if not isinstance(key, _KEYS):
            raise NotData(f"a key of type {type(key).__name__} is not allowed")
        target[key] = value
    return target


_ACTIONS: dict[str, Callable[[_Machine, Any], Any]] = {
    "MARK": lambda m, _: m.marks.append(len(m.stack)),
    "POP": lambda m, _: m.pop(),
    "POP_MARK": lambda m, _: m.pop_mark(),
    "EMPTY_LIST": lambda m, _: m.stack.append([]),
    "EMPTY_TUPLE": lambda m, _: m.stack.append(()),
    "EMPTY_DICT": lambda m, _: m.stack.append({}),
    "LIST": lambda m, _: m.stack.append(m.pop_mark()),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.pop_mark())),
    "DICT": lambda m, _: m.stack.append(_fill({}, m.pop_mark())),
    "TUPLE1": lambda m, _: m.several(1),
    "TUPLE2": lambda m, _: m.several(2),
    "TUPLE3": lambda m, _: m.several(3),
    "APPEND": lambda m, _: m.append([m.pop()]),
    "APPENDS": lambda m, _: m.append(m.pop_mark()),
    "SETITEM": lambda m, _: m.set_item(),
    "SETITEMS": lambda m, _: m.set_items(m.pop_mark()),
    "PUT": lambda m, key: m.put(key),
    "BINPUT": lambda m, key: m.put(key),
    "LONG_BINPUT": lambda m, key: m.put(key),
    "MEMOIZE": lambda m, _: m.put(len(m.memo)),
    "GET": lambda m, key: m.get(key),
    "BINGET": lambda m, key: m.get(key),
    "LONG_BINGET": lambda m, key: m.get(key),
    "GLOBAL": lambda m, names: m.global_name(*names.split(" ", 1)),
    "STACK_GLOBAL": lambda m, _: m.stack_global(),
    "REDUCE": lambda m, _: m.call(),
    "NEWOBJ": lambda m, _: m.call(),
    "BUILD": lambda m, _: m.build(),
}
