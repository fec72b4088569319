# SPDX-License-Identifier: Apache-2.0
"""Tables this side was not built for are refused before a slot is touched: forged with ctypes."""

import ctypes

import pytest

from mx_core import _native
from mx_core.errors import AbiError
from mx_core.testing import tables

#: interface -> size of its table in the headers, bytes
SIZES = {
    "mx.engine.v1": 208,
    "mx.storage.v1": ctypes.sizeof(tables.StorageTable),
    "mx.shared.v1": ctypes.sizeof(tables.SharedTable),
    "mx.resource.v1": ctypes.sizeof(tables.ResourceTable),
    "mx.device.v1": 96,
    "mx.invoke.v1": 120,
    "mx.kernel.v1": 24,
}
#: who brings an interface, where it is not left to plug-ins
PROVIDERS = {
    "mx.engine.v1": "mx-engine or a plug-in",
    "mx.storage.v1": "mx-storage or a plug-in",
    "mx.shared.v1": "mx-storage or a plug-in",
    "mx.resource.v1": "mx-storage or a plug-in",
    "mx.invoke.v1": "mx-ndarray",
}
_keep = []


def capsule(interface, size=None, major=1, minor=0):
    """A table that has nothing but a head: touching a slot would crash."""
    table = tables.Head(SIZES[interface] if size is None else size, major, minor)
    name = interface.encode()
    _keep.append((table, name))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(table), name, None)


@pytest.mark.parametrize("interface", SIZES)
def test_a_table_of_this_version_is_taken(interface):
    _native.check_table(capsule(interface), "acme-ops")
    assert _native.table_head(capsule(interface), interface) == (SIZES[interface], 1, 0)


@pytest.mark.parametrize("interface", SIZES)
def test_a_longer_table_of_a_later_minor_version_is_taken(interface):
    _native.check_table(capsule(interface, size=SIZES[interface] + 64, minor=3), "acme-ops")


@pytest.mark.parametrize("interface", SIZES)
@pytest.mark.parametrize("forged", [{"size": -8}, {"major": 2}, {"major": 0}, {"major": 2, "minor": 9}])
def test_another_table_is_refused_with_both_versions_and_the_cure(interface, forged):
    if "size" in forged:
        forged = {"size": SIZES[interface] + forged["size"]}
    with pytest.raises(AbiError) as caught:
        _native.check_table(capsule(interface, **forged), "acme-ops")
    text = str(caught.value)
    offers = f"offers {forged.get('major', 1)}.{forged.get('minor', 0)}"
    for part in (
        "[acme-ops]",
        f"interface {interface} 1.0 ({SIZES[interface]} bytes)",
        offers,
        f"the installed provider ({PROVIDERS.get(interface, 'a plug-in')}) offers",
        "install versions of mx-core and acme-ops",
    ):
        assert part in text
    assert isinstance(caught.value, ImportError)


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda: capsule("mx.storage.v1"), "a capsule mx.storage.v1"),
        (lambda: 3, "an object of type int"),
        (lambda: None, "an object of type NoneType"),
    ],
)
def test_what_is_no_capsule_of_the_name_is_told(make, found):
    with pytest.raises(
        AbiError, match=rf"\[mx-core\] expected a capsule mx\.plan\.v1 of a plug-in, got {found}$"
    ):
        _native.check_plan(make())
    with pytest.raises(
        AbiError, match=rf"expected a capsule mx\.engine\.v1 of mx-engine or a plug-in, got {found}$"
    ):
        _native.table_head(make(), "mx.engine.v1")
    with pytest.raises(AbiError, match=f"got {found}$"):
        _native.run_plan(make(), [], [], [])


#: interfaces that plug-ins provide -> size of the table in 1.0, bytes; frozen
OF_PLUGINS = {"mx.device.v1": 96, "mx.kernel.v1": 24}


@pytest.mark.parametrize("interface", OF_PLUGINS)
def test_of_a_table_of_a_plugin_the_size_of_1_0_is_enough(interface):
    _native.check_table(capsule(interface, size=OF_PLUGINS[interface]), "mx-core")
    with pytest.raises(AbiError, match=f"{OF_PLUGINS[interface]} bytes"):
        _native.check_table(capsule(interface, size=OF_PLUGINS[interface] - 8), "mx-core")


def test_a_kernel_table_without_prepare_is_refused():
    head = tables.Head(24, 1, 0)
    memory = ctypes.create_string_buffer(bytes(head) + bytes(16))
    _keep.append(memory)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    made = new(ctypes.addressof(memory), b"mx.kernel.v1", None)
    with pytest.raises(AbiError, match="lacks prepare"):
        _native.prepare_native(made, "op", {}, [], [], (1, 0), False)


def test_a_kernel_table_is_checked_before_it_is_called():
    with pytest.raises(AbiError, match="mx.kernel.v1"):
        _native.prepare_native(capsule("mx.kernel.v1", major=2), "op", {}, [], [], (1, 0), False)


@pytest.mark.parametrize("wrong", [None, 3, "mx.engine.v1"])
def test_what_is_no_table_is_refused(wrong):
    with pytest.raises(AbiError, match="not a capsule of an mx interface"):
        _native.check_table(wrong, "acme-ops")
