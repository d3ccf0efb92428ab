"""Pickles of plain containers and arrays of numbers, read by a machine of our own: nothing that they name is called."""

from __future__ import annotations

import math
import pickletools
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...sizes import many

__all__ = ["plain_pickle"]

# The numeric dtypes by the names that NumPy pickles them under.
_DTYPES: Final = frozenset(
    ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
)
_ORDERS: Final = ("<", ">", "|", "=")
# What NumPy says of a dtype beside its byte order, where it has no fields, no shape and no alignment of its own.
_PLAIN_STATE: Final = (None, None, None, -1, -1, 0)
_LITERALS: Final[dict[str, Any]] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_VALUES: Final = frozenset((
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "UNICODE", "BINUNICODE",
    "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8",
))  # fmt: skip
_STRINGS: Final = frozenset(("STRING", "BINSTRING", "SHORT_BINSTRING"))  # of Python 2: bytes
_TUPLES: Final = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_MOST_DIMS: Final = 32


def _said(value: Any) -> str:
    """A text for a message; of containers in containers, which may be without end, the type alone."""
    return repr(value[:60]) if isinstance(value, str | bytes) else f"a {type(value).__name__}"


class _Named:
    """Stands for what a pickle names; nothing but `_called` knows what it would be."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Dtype:
    """A plain numeric dtype, from its name and its byte order."""

    def __init__(self, name: Any) -> None:
        name = name.decode("latin-1") if isinstance(name, bytes) else name
        if not isinstance(name, str) or name not in _DTYPES:
            raise ValueError(f"it holds an array of {_said(name)}, which is no plain number")
        self.dtype = np.dtype(name)

    def take_state(self, state: Any) -> None:
        """Take the byte order over, which is all that may be said."""
        order: Any = state[1] if isinstance(state, tuple) and len(state) == 8 else None
        order = order.decode("latin-1") if isinstance(order, bytes) else order
        if order not in _ORDERS or state[2:] != _PLAIN_STATE:
            raise ValueError("it holds a dtype with a state of its own, which is no plain number")
        self.dtype = self.dtype.newbyteorder(order)


class _Array:
    """An array, from its shape, dtype and bytes."""

    def __init__(self) -> None:
        self.values: NDArray[Any] | None = None

    def take_state(self, state: Any) -> None:
        """Make the array of its bytes."""
        if not isinstance(state, tuple) or len(state) != 5:
            raise ValueError("it holds an array without a shape, a dtype and bytes")
        _, shape, kind, fortran, data = state
        sizes = shape if isinstance(shape, tuple) else ()
        if not sizes or len(sizes) > _MOST_DIMS or not all(type(size) is int and size >= 0 for size in sizes):
            raise ValueError("it holds an array without a shape")
        if not isinstance(kind, _Dtype) or not isinstance(data, bytes):
            raise ValueError("it holds an array of Python objects")
        if math.prod(sizes) * kind.dtype.itemsize != len(data):
            raise ValueError(
                f"an array of the shape {list(sizes)} is said to be in {many(len(data), 'byte')}"
            )
        self.values = np.frombuffer(data, kind.dtype).reshape(sizes, order="F" if fortran else "C")


def _array_of(kind: Any, *_: Any) -> _Array:
    if not isinstance(kind, _Named) or kind.name != "numpy.ndarray":
        raise ValueError("it makes something else than an array")
    return _Array()


def _dtype_of(name: Any = None, *_: Any) -> _Dtype:
    return _Dtype(name)


def _bytes_of(text: Any = None, codec: Any = None) -> bytes:
    """Bytes, as Python 3 writes them in protocols below 3."""
    if not isinstance(text, str) or codec not in ("latin1", b"latin1"):
        raise ValueError(f"it names the codec {_said(codec)}")
    return text.encode("latin-1")


_CALLED: Final[dict[str, Callable[..., Any]]] = {
    "numpy.core.multiarray._reconstruct": _array_of,
    "numpy._core.multiarray._reconstruct": _array_of,
    "numpy.dtype": _dtype_of,
    "_codecs.encode": _bytes_of,
}
_NAMES: Final = frozenset((*_CALLED, "numpy.ndarray"))


class _Machine:
    """The stack and the memo of a pickle that is being read."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._marked: list[list[Any]] = []  # what lies below each mark
        self._memo: dict[int, Any] = {}

    def result(self, operations: Iterator[tuple[Any, Any, Any]]) -> Any:
        """Run the operations; what they leave."""
        for operation, argument, _ in operations:
            name = operation.name
            if name == "STOP":
                return self._stack.pop()
            self._step(name, argument)
        raise ValueError("it does not end")

    def _step(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in ("PROTO", "FRAME"):
            return
        if name in _VALUES:
            stack.append(argument)
        elif name in _STRINGS:
            stack.append(argument.encode("latin-1"))
        elif name in _LITERALS:
            stack.append(_LITERALS[name])
        elif name == "MARK":
            self._marked.append(stack)
            self._stack = []
        elif name in ("EMPTY_LIST", "EMPTY_DICT"):
            stack.append([] if name == "EMPTY_LIST" else {})
        elif name in ("LIST", "TUPLE", "DICT"):
            self._contain(name, self._since_mark())
        elif name in _TUPLES:
            self._push_tuple(_TUPLES[name])
        elif name in ("APPEND", "APPENDS"):
            items = self._since_mark() if name == "APPENDS" else [stack.pop()]
            self._top(list).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            pairs = self._since_mark() if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
            self._top(dict).update(_pairs(pairs))
        elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self._memo[len(self._memo) if name == "MEMOIZE" else argument] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name == "GLOBAL":
            stack.append(_named(argument.replace(" ", ".")))
        elif name == "STACK_GLOBAL":
            of, module = stack.pop(), stack.pop()
            if not (isinstance(module, str) and isinstance(of, str)):
                raise ValueError("it names something by no name")
            stack.append(_named(f"{module}.{of}"))
        elif name == "REDUCE":
            self._reduce(stack.pop(), stack.pop())
        elif name == "BUILD":
            state = stack.pop()
            if not isinstance(stack[-1], _Array | _Dtype):
                raise ValueError("it gives a state to something that is no array")
            stack[-1].take_state(state)
        elif name in ("POP", "POP_MARK"):
            if name == "POP_MARK":
                self._since_mark()
            else:
                stack.pop()
        else:
            raise ValueError(f"it holds something else than plain values ({name})")

    def _since_mark(self) -> list[Any]:
        found, self._stack = self._stack, self._marked.pop()
        return found

    def _top(self, kind: Any) -> Any:
        if not isinstance(self._stack[-1], kind):
            raise ValueError(f"it adds to something that is no {kind.__name__}")
        return self._stack[-1]

    def _contain(self, name: str, items: list[Any]) -> None:
        made = {"LIST": list, "TUPLE": tuple, "DICT": _pairs}[name](items)  # type: ignore[operator]
        self._stack.append(made)

    def _push_tuple(self, size: int) -> None:
        at = len(self._stack) - size
        if at < 0:
            raise IndexError("pop from empty list")
        self._stack[at:] = [tuple(self._stack[at:])]

    def _reduce(self, arguments: Any, called: Any) -> None:
        make = _CALLED.get(called.name) if isinstance(called, _Named) else None
        if make is None or not isinstance(arguments, tuple):
            raise ValueError("it calls something that makes no array")
        self._stack.append(make(*arguments))


def _named(name: str) -> _Named:
    if name not in _NAMES:
        raise ValueError(f"it names {name[:60]}, which is no plain container or array")
    return _Named(name)


def _pairs(items: list[Any]) -> dict[Any, Any]:
    """A dict of keys and values in turn. A key is text, bytes or a number: of tuples in tuples a hash never ends."""
    keys = items[::2]
    if not all(type(key) in (str, bytes, int) for key in keys):
        raise ValueError("it holds a dict whose keys are no names")
    return dict(zip(keys, items[1::2], strict=True))


def plain_pickle(data: bytes) -> dict[Any, Any]:
    """Return the dict that a pickle of Python 2 or 3 holds, with those of its values that are arrays as such.

    Text of Python 2 is bytes. ``ValueError`` when it holds no dict, or anything but containers, numbers, text and
    arrays of numbers: an array is made of its bytes, shape and the name of its dtype, and of no other state.
    """
    try:
        found = _Machine().result(pickletools.genops(data))
        if not isinstance(found, dict):
            raise ValueError("it holds no dict")
        return {key: value.values if isinstance(value, _Array) else value for key, value in found.items()}
    except Exception as error:  # whatever a damaged pickle brings about
        raise ValueError(
            f"no pickle of plain containers and arrays: {error or type(error).__name__}"
        ) from None
