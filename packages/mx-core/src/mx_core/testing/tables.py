# SPDX-License-Identifier: Apache-2.0
"""The C tables of storage managers and random resources, called through ctypes.

Field for field what mx_core/abi.h and mx_core/storage.h declare; `tests/test_abi_handshake.py`
compares the sizes.
"""

from __future__ import annotations

import ctypes as c
from typing import Any


class Head(c.Structure):
    """mx_table_head."""

    _fields_ = [("size", c.c_uint32), ("major", c.c_uint16), ("minor", c.c_uint16)]


class Error(c.Structure):
    """mx_error."""

    _fields_ = [("code", c.c_int32), ("message", c.c_char * 508)]


class Context(c.Structure):
    """mx_context."""

    _fields_ = [("type", c.c_int32), ("id", c.c_int32)]


class Block(c.Structure):
    """mx_block."""

    _fields_ = [
        ("data", c.c_void_p),
        ("bytes", c.c_size_t),
        ("context", Context),
        ("handle", c.c_void_p),
    ]


class StorageStats(c.Structure):
    """mx_storage_stats."""

    _fields_ = [
        ("size", c.c_uint32),
        ("reserved", c.c_uint32),
        ("bytes_in_use", c.c_uint64),
        ("bytes_pooled", c.c_uint64),
        ("bytes_peak", c.c_uint64),
        ("bytes_limit", c.c_uint64),
        ("allocations", c.c_uint64),
        ("pool_hits", c.c_uint64),
    ]


_U64 = c.POINTER(c.c_uint64)
_BLOCK = c.POINTER(Block)
_ERROR = c.POINTER(Error)


class StorageTable(c.Structure):
    """mx_storage_api."""

    _fields_ = [
        ("head", Head),
        ("self", c.c_void_p),
        (
            "alloc",
            c.CFUNCTYPE(c.c_int32, c.c_void_p, Context, c.c_size_t, c.c_char_p, _BLOCK, _ERROR),
        ),
        ("free", c.CFUNCTYPE(None, c.c_void_p, _BLOCK)),
        ("direct_free", c.CFUNCTYPE(None, c.c_void_p, _BLOCK)),
        ("release_all", c.CFUNCTYPE(None, c.c_void_p, Context)),
        (
            "stats",
            c.CFUNCTYPE(c.c_int32, c.c_void_p, Context, c.POINTER(StorageStats), _ERROR),
        ),
        ("reset_peak", c.CFUNCTYPE(None, c.c_void_p, Context)),
        ("set_limit", c.CFUNCTYPE(None, c.c_void_p, Context, c.c_uint64)),
    ]


class Segment(c.Structure):
    """mx_segment."""

    _fields_ = [
        ("size", c.c_uint32),
        ("fd", c.c_int32),
        ("bytes", c.c_uint64),
        ("inode", c.c_uint64),
        ("offset", c.c_uint64),
    ]


class SharedTable(c.Structure):
    """mx_shared_api."""

    _fields_ = [
        ("head", Head),
        ("self", c.c_void_p),
        ("segment", c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p, c.POINTER(Segment), _ERROR)),
        (
            "attach",
            c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_int32, c.c_uint64, c.c_char_p, _BLOCK, _ERROR),
        ),
    ]


class ResourceTable(c.Structure):
    """mx_resource_api."""

    _fields_ = [
        ("head", Head),
        ("self", c.c_void_p),
        ("reserve_random", c.CFUNCTYPE(None, c.c_void_p, Context, c.c_uint64, _U64, _U64)),
        ("seed", c.CFUNCTYPE(None, c.c_void_p, Context, c.c_uint64)),
        ("seed_all", c.CFUNCTYPE(None, c.c_void_p, c.c_uint64)),
    ]


def table(capsule: Any, kind: type[Any], name: str) -> Any:
    """The table in a capsule, checked as native consumers check it."""
    from mx_core import _native

    _native.check_table(capsule, "the contract tests")
    get = c.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c.c_void_p, [c.py_object, c.c_char_p]
    return kind.from_address(get(capsule, name.encode()))
