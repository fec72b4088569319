# SPDX-License-Identifier: Apache-2.0
"""The storage contract accepts a simple manager over malloc and finds each of several faults."""

import ctypes as c
import threading

import pytest

from mx_core.testing import StorageContract
from mx_core.testing.tables import Head, StorageTable

LIBC = c.CDLL(None)
LIBC.aligned_alloc.restype, LIBC.aligned_alloc.argtypes = c.c_void_p, [c.c_size_t, c.c_size_t]
LIBC.free.restype, LIBC.free.argtypes = None, [c.c_void_p]
FIELDS = dict(StorageTable._fields_)


class Manager:
    """Every block from the system, back to the system at once."""

    name = "Simple"
    alignment = 64
    overlap = False
    counts_frees = True
    explains = True
    knows_its_device = True
    resets = True
    spares_what_is_used = True
    status_of_stats = 0

    def __init__(self):
        self.lock = threading.Lock()
        self.in_use = self.peak = self.limit = self.allocations = 0
        names = ("alloc", "free", "direct_free", "release_all", "stats", "reset_peak", "set_limit")
        functions = [FIELDS[name](getattr(self, name)) for name in names]
        self.table = StorageTable(Head(c.sizeof(StorageTable), 1, 0), None, *functions)
        new = c.pythonapi.PyCapsule_New
        new.restype, new.argtypes = c.py_object, [c.c_void_p, c.c_char_p, c.c_void_p]
        self.label = b"mx.storage.v1"
        self.capsule = new(c.addressof(self.table), self.label, None)
        self.shared = self.kept = None

    def known(self, context, error):
        if self.knows_its_device and context.type != 1:
            error.contents.message = f"expected cpu (1), got device type {context.type}".encode()
            return False
        return True

    def alloc(self, _self, context, size, tag, block, error):
        if not self.known(context, error):
            return 4
        with self.lock:
            if size > 1 << 40 or (self.limit and self.in_use + size > self.limit):
                text = f"asked {size}, in use {self.in_use}, limit {self.limit}" if self.explains else "no"
                error.contents.message = text.encode()
                return 6
            rounded = (size + 127) // 64 * 64
            data = self.shared if self.overlap and self.shared else LIBC.aligned_alloc(64, rounded)
            self.shared = data
            block.contents.data, block.contents.bytes = data + 64 - self.alignment, size
            block.contents.context = context
            self.kept = self.kept or (data, rounded)
            self.in_use += size
            self.peak = max(self.peak, self.in_use)
            self.allocations += 1
        return 0

    def free(self, _self, block):
        with self.lock:
            if self.counts_frees:
                self.in_use -= block.contents.bytes
        if not self.overlap:
            LIBC.free(block.contents.data - 64 + self.alignment)

    direct_free = free

    def release_all(self, _self, context):
        if not self.spares_what_is_used:
            c.memset(self.kept[0], 0, self.kept[1])

    def stats(self, _self, context, stats, error):
        if not self.known(context, error):
            return 4
        s = stats.contents
        s.bytes_in_use, s.bytes_peak, s.bytes_limit = self.in_use, self.peak, self.limit
        s.allocations = self.allocations
        return self.status_of_stats

    def reset_peak(self, _self, context):
        if self.resets:
            self.peak = self.in_use

    def set_limit(self, _self, context, size):
        self.limit = size


class TestSimpleManager(StorageContract):
    def make_storage(self):
        return Manager()


@pytest.mark.parametrize(
    ("fault", "test"),
    [
        ({"alignment": 32}, "blocks_are_aligned_disjoint_and_writable"),
        ({"overlap": True}, "blocks_are_aligned_disjoint_and_writable"),
        ({"counts_frees": False}, "statistics_follow_alloc_and_free"),
        ({"status_of_stats": 4}, "statistics_follow_alloc_and_free"),
        ({"resets": False}, "the_peak_starts_again_at_what_is_in_use"),
        ({"spares_what_is_used": False}, "release_all_leaves_blocks_in_use_alone"),
        ({"counts_frees": False}, "a_block_may_be_freed_by_another_thread"),
        ({"knows_its_device": False}, "contexts_of_other_devices_are_refused"),
        ({"explains": False}, "the_limit_is_kept_and_the_refusal_explained"),
    ],
)
def test_faults_are_found(fault, test):
    contract = StorageContract()
    contract.make_storage = lambda: type("Faulty", (Manager,), fault)()
    with pytest.raises(AssertionError):
        getattr(contract, f"test_{test}")()
