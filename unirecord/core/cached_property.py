"""A property that is computed once, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

__all__ = ["cached_property"]

Value = TypeVar("Value")


class cached_property(Generic[Value]):
    """As functools.cached_property, whose one lock for all instances, up to Python 3.11, a forked child may find held.

    Threads that ask at the same time may each compute it; all get what the first of them came to.
    """

    def __init__(self, func: Callable[[Any], Value]) -> None:
        self.func: Callable[[Any], Value] = func
        self.__doc__ = func.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[Value]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> cached_property[Value] | Value:
        if instance is None:
            return self
        value: Value = instance.__dict__.setdefault(self._name, self.func(instance))
        return value
