# SPDX-License-Identifier: Apache-2.0
from typing import Any

from mx_core.context import Context

class Block:
    """Memory from a storage manager, readable and writable through the buffer protocol.

    It goes back to the pool with the object's end, or at `free`.

    Threads: any; users order what they write and read.
    """

    @property
    def nbytes(self) -> int: ...
    @property
    def address(self) -> int: ...
    @property
    def freed(self) -> bool: ...
    def free(self, *, direct: bool = False) -> None:
        """Back to the pool, or with `direct` to the system; later calls do nothing.

        Raises
        ------
        ArgumentError
            Buffers still use the memory.
        """
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Stats:
    """Figures of one context, sizes in bytes. Threads: any; it never changes."""

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

class Segment:
    """Memory that processes share: `fd` is the manager's, `offset` that of the address asked for.

    Threads: any; it never changes.
    """

    @property
    def fd(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def inode(self) -> int: ...
    @property
    def offset(self) -> int: ...

class StorageManager:
    """Host memory by context; `ctx` None is `cpu(0)`. Threads: any."""

    def __init__(
        self,
        name: str,
        *,
        pool: str = "pooled",
        page_size: int = 4096,
        large_size: int = 2097152,
        linear_cutoff: int = 24,
    ) -> None:
        """`pool`: `"pooled"`, `"best_fit"`, `"round"`, `"pages"` or `"naive"` (none); or `"shared"`,
        for `cpu_shared`. Case and underscores do not count: `"BestFit"` is `"best_fit"`.

        `"round"` has a bucket per power of two from `page_size` to 2**`linear_cutoff`, beyond that per
        multiple of it; `"pages"` one per multiple of `page_size`, beyond `large_size` of that.

        Raises
        ------
        ArgumentError
            Another pool; sizes that are no powers of two or out of range.
        """
    @property
    def capsule(self) -> Any:
        """The C table, `mx.storage.v1`; keeps the manager alive."""
    @property
    def shared_capsule(self) -> Any:
        """The C table `mx.shared.v1`; None where the memory is not shared."""
    @property
    def sharing_capsule(self) -> Any:
        """The C table `mx.shared.v1` for large blocks of `cpu(0)`, which are shared once `segment` is asked for them;
        None where the pool is not `"pooled"`."""
    @property
    def name(self) -> str: ...
    def listen(self, capacity: int) -> None:
        """Notes every allocation and release from now on, `capacity` at most; 0 ends it."""
    def events(
        self,
    ) -> list[tuple[int, int, int, int, int, int, str | None]]:
        """What was noted, in order: time (ns of `time.monotonic_ns`), device type and id, bytes (negative:
        given back), bytes in use and pooled afterwards, tag."""
    def forget(self) -> None:
        """Drops what was noted."""
    @property
    def dropped(self) -> int:
        """Events that found no room."""
    def segment(self, address: int) -> Segment:
        """The segment of shared memory in which an address lies.

        Raises
        ------
        ArgumentError
            It lies in none.
        """
    def attach(self, fd: int, nbytes: int, tag: str | None = None) -> Block:
        """Maps a segment of another process through a descriptor, which stays the caller's.

        Raises
        ------
        ArgumentError
            The descriptor is no segment, or of a smaller one.
        """
    def alloc(self, nbytes: int, ctx: Context | None = None, tag: str | None = None) -> Block:
        """`nbytes` of memory aligned to 64, contents undefined; `tag` names the holder.

        Raises
        ------
        OutOfMemoryError
            The limit is reached or the system has no more.
        ArgumentError, NoKernelError
            `ctx` is not memory of this manager.
        """
    def stats(self, ctx: Context | None = None) -> Stats: ...
    def holders(self, ctx: Context | None = None) -> dict[str, int]:
        """Bytes in use by tag; memory without a tag is not among them."""
    def release_all(self, ctx: Context | None = None) -> None:
        """Gives everything pooled back to the system."""
    def reset_peak(self, ctx: Context | None = None) -> None: ...
    def set_limit(self, nbytes: int, ctx: Context | None = None) -> None:
        """What may be in use at most; 0: no limit."""

class Random:
    """Keys and counters of random streams, one stream per context. Threads: any."""

    def __init__(self, name: str) -> None: ...
    @property
    def capsule(self) -> Any:
        """The C table, `mx.resource.v1`; keeps the object alive."""
    @property
    def name(self) -> str: ...
    def seed(self, seed: int, ctx: Context | None = None) -> None:
        """Restarts the stream of `ctx`, or of every context; `seed` from 0 to 2⁶⁴ − 1."""
    def reserve(self, blocks: int, ctx: Context | None = None) -> tuple[int, int]:
        """Key and first of `blocks` counters (of four 32-bit words each) nobody else gets."""
