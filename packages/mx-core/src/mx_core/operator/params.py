# SPDX-License-Identifier: Apache-2.0
"""Operator parameters: declared once, parsed from values or text, written back as text."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import typing
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, dataclass_transform

from mx_core.cached import cached_property
from mx_core.errors import ArgumentError, PluginError
from mx_core.operator.distinct import distinct, may_be_float
from mx_core.operator.text import Shape as Shape
from mx_core.operator.text import alternatives, coerce, to_text, type_name

_MISSING = dataclasses.MISSING
#: types of members of a parameter class that are no methods
_PLAIN = (bool, int, float, str, tuple, list, dict, type(None))


@dataclasses.dataclass(frozen=True)
class FieldInfo:
    """What is declared about one parameter."""

    name: str
    annotation: Any
    default: Any  # dataclasses.MISSING when required
    doc: str
    lower: float | None
    upper: float | None
    choices: tuple[Any, ...] | None
    runtime: bool

    @property
    def required(self) -> bool:
        """True when there is no default."""
        return self.default is _MISSING

    @property
    def takes_none(self) -> bool:
        """True when None is a value."""
        return alternatives(self.annotation)[1]

    @property
    def type_name(self) -> str:
        """The type as documentation shows it."""
        if self.choices:
            return "{" + ", ".join(repr(c) for c in self.choices) + "}"
        return type_name(self.annotation)


def opt(
    default: Any,
    doc: str,
    *,
    lower: float | None = None,
    upper: float | None = None,
    choices: tuple[Any, ...] | None = None,
    runtime: bool = False,
) -> Any:
    """A parameter with a default.

    Parameters
    ----------
    lower, upper : float, optional
        Inclusive bounds (of every element, for tuples).
    choices : tuple, optional
        The values allowed.
    runtime : bool
        A number that may change from call to call without preparing a kernel anew.
    """
    notes = dict(doc=doc, lower=lower, upper=upper, choices=choices, runtime=runtime)
    return dataclasses.field(default=default, metadata=notes)


def required(doc: str, **bounds: Any) -> Any:
    """A parameter that must be given; keyword arguments as for `opt`."""
    notes = dict(doc=doc, lower=None, upper=None, choices=None, runtime=False) | bounds
    return dataclasses.field(metadata=notes)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Params:
    """Base of every parameter class: its annotated `opt(...)` and `required(...)` members are the parameters.

    Members that look like parameters and are none are refused. Members annotated `ClassVar`, names that begin with
    an underscore, and classes with a constructor of their own are left alone.

    Instances are immutable. Inherited parameters come first; a class made with `leading=True` puts its own
    before them. The order is that of positional arguments and of `scalars`.

    Examples
    --------
    >>> class UpdateParam(Params):
    ...     wd: float = opt(0.0, "weight decay", runtime=True)
    >>> class SGDParam(UpdateParam, leading=True):
    ...     lr: float = required("learning rate", runtime=True)
    >>> SGDParam(lr="0.1")
    SGDParam(lr=0.1)
    >>> [info.name for info in SGDParam.fields()]
    ['lr', 'wd']
    """

    op_name: ClassVar[str] = "operator"
    _fields: ClassVar[tuple[FieldInfo, ...]] = ()
    _by_name: ClassVar[dict[str, FieldInfo]] = {}
    _fixed: ClassVar[tuple[str, ...]] = ()
    _runtime: ClassVar[tuple[str, ...]] = ()
    _holds_floats: ClassVar[bool] = False
    _explicit: tuple[str, ...] = ()

    def __init_subclass__(cls, leading: bool = False, init: bool = True, **keywords: Any) -> None:
        # init=False tells type checkers that the constructor is inherited
        super().__init_subclass__(**keywords)
        inherited = {info.name: info for base in cls.__bases__ for info in getattr(base, "_fields", ())}
        own: dict[str, FieldInfo] = {}
        cls._check_plain()
        for name, annotation in inspect.get_annotations(cls, eval_str=True).items():
            declared = cls.__dict__.get(name, _MISSING)
            if not _is_declared(declared):
                cls._check_bare(name, annotation, declared)
                continue
            own[name] = FieldInfo(name, annotation, declared.default, **declared.metadata)
            if own[name].required:
                delattr(cls, name)
            else:
                setattr(cls, name, declared.default)
        merged = own | inherited | own if leading else inherited | own
        cls._fields = tuple(merged.values())
        cls._by_name = merged
        cls._fixed = tuple(name for name, info in merged.items() if not info.runtime)
        cls._runtime = tuple(name for name, info in merged.items() if info.runtime)
        cls._holds_floats = any(may_be_float(merged[name].annotation) for name in cls._fixed)

    @classmethod
    def _check_bare(cls, name: str, annotation: Any, value: Any) -> None:
        """Raises where an annotated member looks like a parameter and is none."""
        held = cls.__init__ is not Params.__init__ or cls._assign is not Params._assign
        if name.startswith("_") or held or ClassVar in (annotation, typing.get_origin(annotation)):
            return
        shown = type_name(annotation)
        call = "required(" if value is _MISSING else f"opt({value!r}, "
        got = "nothing" if value is _MISSING else repr(value)
        raise PluginError(
            f"{cls.__module__}.{cls.__qualname__}.{name}: expected opt(...) or required(...), got {got}; "
            f"write {name}: {shown} = {call}'what it is')"
        )

    @classmethod
    def _check_plain(cls) -> None:
        """Raises where a member without a type looks like a parameter."""
        typed = cls.__dict__.get("__annotations__", {})
        for name, value in vars(cls).items():
            meant = isinstance(value, dataclasses.Field) or (
                isinstance(value, _PLAIN) and not name.startswith("_") and not hasattr(Params, name)
            )
            if meant and name not in typed:
                raise PluginError(
                    f"{cls.__module__}.{cls.__qualname__}.{name}: a parameter needs a type; "
                    f"write {name}: float = opt(1.0, 'what it is')"
                )

    def __init__(self, **values: Any) -> None:
        """Accepts values or MXNet's text forms; see `parse`."""
        self._assign(values, type(self).op_name)

    def _assign(self, values: Mapping[str, Any], op: str, node: str | None = None) -> None:
        where = f"[{op}]" if node is None else f"[{op} {node!r}]"
        table = self._by_name
        for name in values:
            if name not in table:
                raise ArgumentError(_unknown(where, name, list(table)))
        members = self.__dict__
        for name, info in table.items():
            if name in values:
                members[name] = coerce(values[name], info, where)
            elif info.required:
                raise ArgumentError(
                    f"{where} required parameter {name} of type {info.type_name} is not given"
                )
            else:
                members[name] = info.default
        members["_explicit"] = tuple([name for name in table if name in values])

    def _hold(self, **members: object) -> None:
        """Sets members of an instance that is being made, `key` and `scalars` included.

        For constructors of classes whose members are no declared parameters.
        """
        self.__dict__.update(members)

    @classmethod
    def parse(cls, values: Mapping[str, Any], op: str | None = None, node: str | None = None) -> Self:
        """An instance from values or text (`{"kernel": "(3, 3)"}`).

        Raises
        ------
        ArgumentError  unknown name (the message lists the possible ones), missing required
                       parameter, wrong type, value out of bounds; names operator and node
        """
        instance = cls.__new__(cls)
        instance._assign(values, op or cls.op_name, node)
        return instance

    @classmethod
    def fields(cls) -> tuple[FieldInfo, ...]:
        """The declared parameters in order."""
        return cls._fields

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """Hashable, of every parameter that is not run-time; 0.0 and -0.0 differ in it, NaN equals itself."""
        values = tuple([getattr(self, name) for name in self._fixed])
        return distinct(values) if self._holds_floats else values

    @cached_property
    def scalars(self) -> tuple[float, ...]:
        """The run-time parameters as numbers, in declaration order."""
        return tuple([float(getattr(self, name)) for name in self._runtime])

    def with_scalars(self, scalars: Sequence[float]) -> Self:
        """The same parameters with other run-time values."""
        names = self._runtime
        if not names or distinct(tuple(scalars)) == distinct(self.scalars):
            return self
        return self.replace(**dict(zip(names, scalars, strict=True)))

    def replace(self, **changes: Any) -> Self:
        """A copy with some parameters changed (these count as given)."""
        given = {name: getattr(self, name) for name in self._explicit}
        return type(self).parse(given | changes)

    def attrs(self) -> dict[str, str]:
        """The explicitly given parameters in MXNet's text form, as symbol files hold them."""
        return {name: to_text(getattr(self, name)) for name in self._explicit}

    def attrs_all(self) -> dict[str, str]:
        """Every parameter in text form, for kernels written in C."""
        return {f.name: to_text(getattr(self, f.name)) for f in self._fields}

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to parameter {name!r}")

    def _identity(self) -> tuple[Any, ...]:
        found: tuple[Any, ...] | None = self.__dict__.get("_told_apart")
        if found is None:
            found = self.__dict__["_told_apart"] = (type(self), self.key, distinct(self.scalars))
        return found

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is type(self) and self._identity() == other._identity())

    def __hash__(self) -> int:
        found: int | None = self.__dict__.get("_hash")
        if found is None:
            found = self.__dict__["_hash"] = hash(self._identity())
        return found

    def __getstate__(self) -> dict[str, object]:
        # A hash of text is another one in another process, and who copies may change members.
        return {name: value for name, value in self.__dict__.items() if name not in ("_told_apart", "_hash")}

    def __repr__(self) -> str:
        shown = ", ".join(f"{n}={getattr(self, n)!r}" for n in self._explicit)
        return f"{type(self).__name__}({shown})"


def _is_declared(value: object) -> bool:
    return isinstance(value, dataclasses.Field) and "doc" in value.metadata


def _unknown(where: str, name: str, possible: list[str]) -> str:
    close = difflib.get_close_matches(name, possible, 1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    listed = ", ".join(possible) if possible else "none"
    return f"{where} cannot find argument {name!r}, possible arguments: {listed}.{hint}"


class NoParams(Params):
    """Of operators without parameters."""
