# SPDX-License-Identifier: Apache-2.0
"""Attributes of symbols: scopes that add them, and the keys that may be written without underscores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import ClassVar, Self

from mx_core.errors import ArgumentError
from mx_core.graph import PREPARED
from mx_symbol.symbol.current import Current

#: keys that stand for `__key__`
HIDDEN_KEYS = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")


class _HasCurrent(type):
    """Of `AttrScope`, so that `AttrScope.current` can be read and set."""

    @property
    def current(cls) -> AttrScope:
        return AttrScope._current.value

    @current.setter
    def current(cls, scope: AttrScope) -> None:
        AttrScope._current.value = scope


class AttrScope(metaclass=_HasCurrent):
    """Adds attributes to every symbol made in its `with` block; inner scopes win.

    `AttrScope.current` is the calling thread's scope.

    Threads: each has its own current scope; a scope is entered by one thread at a time.

    Parameters
    ----------
    **kwargs : str
        The attributes; values must be text.

    Examples
    --------
    >>> with AttrScope(ctx_group="stage1"):
    ...     Variable("a").attr("ctx_group")
    'stage1'
    """

    _current: ClassVar[Current[AttrScope]] = Current(lambda: AttrScope())  # noqa: PLW0108  which is not there yet

    def __init__(self, **kwargs: str) -> None:
        refuse_private("AttrScope", kwargs)
        for key, value in kwargs.items():
            if not isinstance(value, str):
                raise ArgumentError(f"[AttrScope] {key}: expected text, got {value!r}")
        self._attr = kwargs
        self._outer: list[AttrScope] = []

    def get(self, attr: Mapping[str, str] | None) -> dict[str, str]:
        """The scope's attributes with `attr` on top."""
        return {**self._attr, **(attr or {})}

    def __enter__(self) -> Self:
        outer = AttrScope._current.value
        self._outer.append(outer)
        AttrScope._current.value = AttrScope(**outer.get(self._attr))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        AttrScope._current.value = self._outer.pop()


def refuse_private(where: str, keys: Iterable[str]) -> None:
    """ArgumentError for a key that graph passes alone write: nodes with it may be computed once for many runs."""
    if PREPARED in keys:
        raise ArgumentError(f"[{where}] attribute {PREPARED!r} is private: graph passes write it")


def is_dunder(key: str) -> bool:
    """True for `__key__`."""
    return len(key) > 4 and key.startswith("__") and key.endswith("__")


def canonical_key(key: str) -> str:
    """`__lr_mult__` for `lr_mult`; other keys as they are."""
    return f"__{key}__" if key in HIDDEN_KEYS else key


def canonical(attrs: Mapping[str, str]) -> dict[str, str]:
    """The attributes with hidden keys written out; an underscored key wins over its short form.

    Raises
    ------
    ArgumentError  a key that is private to graph passes
    """
    refuse_private("attributes", attrs)
    result: dict[str, str] = {}
    for key, value in attrs.items():
        full = canonical_key(key)
        if full == key or full not in attrs:
            result[full] = value
    return result


def shown(attrs: Mapping[str, str]) -> dict[str, str]:
    """The attributes as `attr_dict` shows them: hidden keys in both forms."""
    result = dict(attrs)
    for key in HIDDEN_KEYS:
        if f"__{key}__" in attrs:
            result.setdefault(key, attrs[f"__{key}__"])
    return result


def split_input_key(key: str) -> tuple[str, str] | None:
    """(`weight`, `__lr_mult__`) for `weight_lr_mult`: an attribute meant for one input; else None."""
    for hidden in HIDDEN_KEYS:
        if key.endswith("_" + hidden) and len(key) > len(hidden) + 1:
            return key[: -len(hidden) - 1], f"__{hidden}__"
    return None
