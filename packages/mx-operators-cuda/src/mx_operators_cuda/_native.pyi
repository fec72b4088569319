# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from typing import Any, Literal

from mx_core.context import Context

def probe() -> tuple[int, int, str]: ...

class Device:
    def __init__(self) -> None: ...
    @property
    def capsule(self) -> Any: ...
    @property
    def name(self) -> str: ...
    @staticmethod
    def model(id: int) -> str: ...
    @staticmethod
    def multiprocessors(id: int) -> int: ...
    @staticmethod
    def capability(id: int) -> tuple[int, int]: ...
    @staticmethod
    def memory(id: int) -> tuple[int, int]: ...
    @staticmethod
    def stream(id: int, lane: int = 0) -> int: ...
    @staticmethod
    def synchronize(id: int) -> None: ...

class Stats:
    @property
    def bytes_in_use(self) -> int: ...
    @property
    def bytes_pooled(self) -> int: ...
    @property
    def bytes_peak(self) -> int: ...
    @property
    def bytes_limit(self) -> int: ...
    @property
    def allocations(self) -> int: ...
    @property
    def pool_hits(self) -> int: ...

class StorageManager:
    def __init__(
        self, name: str, *, device: Literal["gpu", "cpu_pinned"], pool: str = "pooled", reserve: int = 0
    ) -> None: ...
    @property
    def capsule(self) -> Any: ...
    @property
    def name(self) -> str: ...
    def captured_step(self, gpu: int, ctx: Context) -> CapturedStep: ...
    def alloc(self, nbytes: int, ctx: Context | None = None) -> int: ...
    def free(self, address: int) -> None: ...
    def stats(self, ctx: Context | None = None) -> Stats: ...
    def holders(self, ctx: Context | None = None) -> dict[str, int]: ...
    def release_all(self, ctx: Context | None = None) -> None: ...
    def reset_peak(self, ctx: Context | None = None) -> None: ...
    def set_limit(self, nbytes: int, ctx: Context | None = None) -> None: ...

class Kernel:
    def __init__(self, name: str, image: bytes) -> None: ...
    @property
    def name(self) -> str: ...
    def load(self, gpu: int) -> None: ...

class Product:
    def __init__(
        self,
        a: tuple[int, int, int],
        b: tuple[int, int, int],
        c: tuple[int, int, int],
        *,
        dtype: int,
        transposed: tuple[bool, bool],
        sizes: Sequence[int],
        rows: Sequence[int],
        strides: Sequence[int],
        batch: int,
        add: bool,
    ) -> None: ...

class LibraryPlan:
    @property
    def workspace(self) -> int: ...

class GraphPlan(LibraryPlan):
    @property
    def engine(self) -> int: ...
    @property
    def passed_over(self) -> int: ...

class ConvolutionPlan(GraphPlan):
    def __init__(
        self,
        *,
        result: int,
        dtype: int,
        last: bool,
        bias: bool,
        add: bool,
        extents: tuple[Sequence[int], Sequence[int], Sequence[int]],
        window: tuple[Sequence[int], Sequence[int], Sequence[int]],
        workspace: int,
        converts: bool,
        gpu: int | None,
        properties: str = "",
        residual: bool = False,
        relu: bool = False,
    ) -> None: ...

class NormPlan(GraphPlan):
    def __init__(
        self,
        *,
        mode: int,
        gradient: bool,
        dtypes: tuple[int, int],
        last: bool,
        extents: Sequence[int],
        epsilon: float,
        workspace: int,
        gpu: int | None,
        properties: str = "",
    ) -> None: ...

class AttentionPlan(GraphPlan):
    def __init__(
        self,
        *,
        stage: int,
        dtype: int,
        extents: tuple[int, int, int, int, int, int],
        scale: float,
        workspace: int,
        gpu: int | None,
        properties: str = "",
    ) -> None: ...

class RnnPlan(LibraryPlan):
    def __init__(
        self,
        *,
        cell: int,
        gradient: bool,
        dtype: int,
        both: bool,
        shows: bool,
        extents: tuple[int, int, int, int, int],
        converts: bool,
        gpu: int,
    ) -> None: ...

class Library:
    def __init__(
        self,
        written: LibraryPlan,
        added: LibraryPlan | None,
        *,
        places: Sequence[tuple[int, int, int]],
        results: Sequence[tuple[int, int, int]],
        workspace: tuple[int, int, int],
        then: int,
        instead: int,
    ) -> None: ...

class ProductPlan:
    def __init__(
        self,
        *,
        dtype: int,
        transposed: tuple[bool, bool],
        sizes: tuple[int, int, int],
        rows: tuple[int, int, int],
        bias: bool,
        relu: bool,
        workspace: int,
        gpu: int,
    ) -> None: ...
    @property
    def workspace(self) -> int: ...

class Finished:
    def __init__(
        self,
        plan: ProductPlan,
        *,
        places: Sequence[tuple[int, int, int]],
        bias: tuple[int, int, int] | None,
        workspace: tuple[int, int, int],
        instead: int,
    ) -> None: ...

class CapturedStep:
    def begin(self, engine: Any) -> None: ...
    def begin_second(self) -> None: ...
    def end(self) -> None: ...
    def abandon(self) -> None: ...
    def bind(
        self, invoke: Any, random: Any, *, inputs: Sequence[int], written: Sequence[int], apart: Sequence[int]
    ) -> None: ...
    def takes(self, given: tuple[Any, ...]) -> bool: ...
    def begin_numbers(self) -> None: ...
    def drain(self) -> None: ...
    def missing(self) -> int: ...
    def abandon_numbers(self) -> None: ...
    def host_arrays(self) -> bytes: ...
    def tell_host_arrays(self, arrays: bytes) -> None: ...
    def start(self, given: tuple[Any, ...]) -> None: ...

def load_blas(path: str) -> None: ...
def load_blas_lt(path: str) -> int: ...
def load_dnn(path: str) -> int: ...
def launch_plan(
    name: str,
    gpu: int,
    inputs: Sequence[tuple[Sequence[int], int]],
    outputs: Sequence[tuple[Sequence[int], int]],
    steps: Sequence[
        tuple[Kernel, int, int, int, Sequence[tuple[int, int, int]]] | Product | Library | Finished
    ],
    *,
    n_scalars: int = 0,
    scratch: Sequence[int] = (),
    random_blocks: int = 0,
    conditions: Sequence[tuple[int, int, bool, str]] = (),
    adds: bool = True,
    counted: tuple[int, int, int, Sequence[int]] | None = None,
    spare: int = 0,
    storage: Any = None,
) -> Any: ...
def launch(
    engine: Any,
    invoke: Any,
    kernel: Kernel,
    *,
    name: str,
    gpu: int,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_bytes: int,
    arguments: Sequence[tuple[int, bool, int]],
    priority: int,
) -> None: ...
def load_nccl(path: str) -> None: ...
def nccl_version() -> int: ...
def collective(
    engine: Any, invoke: Any, *, reduces: bool, arrays: Sequence[int], root: int, priority: int
) -> None: ...
