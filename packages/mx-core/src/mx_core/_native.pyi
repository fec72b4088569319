# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

def prepare_native(
    capsule: Any,
    op_name: str,
    params: Mapping[str, str],
    inputs: Sequence[tuple[Sequence[int], int]],
    outputs: Sequence[tuple[Sequence[int], int]],
    context: tuple[int, int],
    is_train: bool,
) -> Any:
    """Plan capsule of a kernel table for one signature, or None when the table declines."""

def run_plan(
    plan: Any,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    req: Sequence[int],
    is_train: bool = False,
    scalars: Sequence[float] = (),
    random_key: int = 0,
    random_offset: int = 0,
    threads: int = 1,
) -> tuple[list[tuple[tuple[int, ...], bytes] | None], str]:
    """Runs a plan on buffers, now, and says what it wrote outside of its scratch memory. Blocking, without the GIL.

    Inputs and outputs are C-contiguous buffers, or pairs (buffer, element type code); the shapes
    must be those the plan was prepared for. An element type code alone is an output whose shape
    the kernel decides: for it the result has (shape, bytes), else None. The text is empty where nothing was written
    outside.
    """

def interrupt_plan(
    plan: Any,
    stopped: tuple[Sequence[Any], Sequence[Any]],
    between: tuple[Sequence[Any], Sequence[Any]],
    is_train: bool,
    scalars: Sequence[float],
    random_key: int,
    rounds: int,
    limit: int,
    patience: int,
) -> tuple[int, list[tuple[bool, list[bytes]]]]:
    """Stops runs of a plan in the middle and runs it on other arrays meanwhile. Blocking, without the GIL.

    `stopped` and `between` are (inputs, outputs) of two runs, as for `run_plan`; `limit` and `patience` are
    milliseconds for all rounds and for one stop. Returns how many rounds there were, and the first results that were
    not, byte for byte, those of the run alone: whether it was the stopped one, and its inputs and outputs.
    """

def check_plan(plan: Any) -> None:
    """Raises AbiError unless the plan in a capsule has a head of 1.x and all functions."""

def raise_after_call(frame: FrameType | None, error: BaseException) -> None:
    """Has the main thread raise an error as soon as the function is done that `frame` is calling."""

def surely(function: Callable[[], object], tell: Callable[[BaseException], object]) -> Callable[[], None]:
    """A native function that calls another one until it returns, and tells what it has raised; it never raises that."""

def enter_block(self: T) -> T:
    """`__enter__` of a class: puts an object last in the tuple `self.entered.stack`, before or after Ctrl-C."""

def leave_block(self: Any, *error: object) -> None:
    """`__exit__`: takes the last object off."""

def method(function: F) -> F:
    """A native function as a method of the class that it is assigned in."""

class ShapeTable:
    """What is known of shapes by name: the part of `mx_core.operator.Shapes` that rules use most.

    What is unusual it leaves to methods of the class in Python that derives from it. Threads: one.
    """

    where: str
    changed: bool
    @property
    def _table(self) -> dict[str, tuple[int, ...] | None]: ...
    def __init__(
        self, where: str, names: Sequence[str], values: Sequence[tuple[int, ...] | None]
    ) -> None: ...
    def get(self, name: str) -> tuple[int, ...] | None:
        """The shape with −1 for unknown dimensions, or None."""

    def ranked(self, name: str) -> tuple[int, ...]:
        """The shape with −1 for unknown dimensions, of a tensor whose rank is known."""

    def known(self, name: str) -> tuple[int, ...] | None:
        """The shape if it is complete, or None."""

    def assign(self, name: str, shape: Sequence[int] | None) -> None:
        """Adds knowledge about a shape.

        Raises
        ------
        ShapeError  it contradicts what is known; the message has both
        """

    def unify(self, names: Sequence[str]) -> None:
        """States that all these shapes are equal."""

    def values(self, names: Sequence[str]) -> tuple[tuple[int, ...] | None, ...]:
        """Current knowledge in the order of `names`."""

    def complete(self, names: Sequence[str]) -> tuple[tuple[int, ...], ...] | None:
        """The shapes in the order of `names` if all are complete, or None."""

def slot_initializer(of: type, names: tuple[str, ...], defaults: tuple[object, ...]) -> Callable[..., None]:
    """A native `__init__` of a class with slots: stores arguments in those of their names; the last have defaults."""

def capsule_name(object: object) -> str | None:
    """The name of a capsule, empty if it has none; None for what is no capsule."""

def table_head(capsule: Any, name: str) -> tuple[int, int, int]:
    """Size in bytes, major and minor of the table in a capsule."""

def check_table(capsule: Any, consumer: str) -> None:
    """Raises AbiError unless mx-core's headers can use the table in a capsule."""
