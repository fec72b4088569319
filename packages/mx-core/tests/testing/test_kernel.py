# SPDX-License-Identifier: Apache-2.0
"""check_kernel accepts right kernels and names the request that a wrong one gets wrong."""

import ctypes as c
from threading import Lock
from time import sleep

import numpy as np
import pytest

from mx_core import operators
from mx_core.operator import Operator, SimpleOp
from mx_core.testing import check_kernel
from mx_core.testing.tables import Error, Head


class Twice(SimpleOp):
    """2·x."""

    name = "check_twice"

    def function(self, p, data):
        return 2 * data


class Tensor(c.Structure):
    _fields_ = [
        ("data", c.POINTER(c.c_float)), ("shape", c.c_void_p), ("bytes", c.c_size_t), ("type", c.c_int32),
        ("id", c.c_int32), ("dtype", c.c_int32), ("ndim", c.c_int32), ("layout", c.c_uint64),
    ]  # fmt: skip


TENSORS = c.POINTER(Tensor)
RUN = c.CFUNCTYPE(
    c.c_int32, c.c_void_p, c.c_void_p, TENSORS, c.c_uint32, TENSORS, c.POINTER(c.c_uint8), c.c_uint32,
    c.POINTER(Error),
)  # fmt: skip
VOID = c.CFUNCTYPE(None, c.c_void_p)


class Plan(c.Structure):
    _fields_ = [
        ("head", Head), ("flags", c.c_uint32), ("n_scratch", c.c_uint32), ("scratch_bytes", c.c_void_p),
        ("random_blocks", c.c_uint64), ("run", RUN), ("retain", VOID), ("release", VOID),
    ]  # fmt: skip


_keep = []


class Context(c.Structure):
    _fields_ = [("before", c.c_char * 24), ("scratch", c.POINTER(c.c_void_p))]


def kernel(compute):
    """A `make` for float32 whose plan calls compute(x, y, req) on flat arrays.

    With an attribute `scratch`, sizes in bytes, it gets the addresses of so many memories, too.
    """
    sizes = getattr(compute, "scratch", ())

    def run(_plan, context, inputs, _n, outputs, req, _m, _error):
        size = inputs[0].bytes // 4
        if size:
            x = np.ctypeslib.as_array(inputs[0].data, (size,))
            memories = [c.cast(context, c.POINTER(Context))[0].scratch[i] for i in range(len(sizes))]
            compute(x, np.ctypeslib.as_array(outputs[0].data, (size,)), req[0], *memories)
        return 0

    def make(call):
        if call.inputs[0].dtype != 0:
            return None
        scratch = (c.c_size_t * len(sizes))(*sizes)
        parts = (RUN(run), VOID(lambda p: None), VOID(lambda p: None), b"mx.plan.v1", scratch)
        plan = Plan(Head(c.sizeof(Plan), 1, 0), 0, len(sizes), c.addressof(scratch), 0, *parts[:3])
        _keep.append((parts, plan))
        new = c.pythonapi.PyCapsule_New
        new.restype, new.argtypes = c.py_object, [c.c_void_p, c.c_char_p, c.c_void_p]
        return new(c.addressof(plan), parts[3], None)

    return make


def right(x, y, req):
    if req == 3:
        y += 2 * x
    elif req:
        y[...] = 2 * x


def ignores_add(x, y, req):
    if req:
        y[...] = 2 * x


def ignores_null(x, y, req):
    right(x, y, req or 1)


def not_in_place(x, y, req):
    if req:
        y[...] = 0 if req != 3 else y
        y += 2 * x


def inaccurate(x, y, req):
    right(x * 1.01, y, req)


def overwrites_its_input(x, y, req):
    right(x.copy(), y, req)
    if req == 1:
        x[...] = 0


def shifted(array, elements):
    """The array's memory, so many elements further."""
    return np.ctypeslib.as_array(c.cast(array.ctypes.data + 4 * elements, c.POINTER(c.c_float)), array.shape)


def writes_behind(x, y, req):
    right(x, y, req)
    shifted(y, y.size)[:1] = 5


def writes_before(x, y, req):
    right(x, y, req)
    shifted(y, -16)[:1] = 5


def writes_behind_its_input(x, y, req):
    right(x, y, req)
    shifted(x, x.size + 15)[:1] = 5


def reads_outside(x, y, req):
    right(shifted(x, 1), y, req)


def floats(memory, n):
    return np.ctypeslib.as_array(c.cast(memory, c.POINTER(c.c_float)), (n,))


def writes_behind_its_scratch(x, y, req, _, memory):
    floats(memory, 5)[:] = 3
    right(x, y, req)


def writes_before_its_scratch(x, y, req, memory):
    floats(memory - 8, 2)[:] = 3
    right(x, y, req)


def uses_its_scratch(x, y, req, memory):
    total = floats(memory, 3)
    total[:] = 0
    total += 2
    right(x * total[2] / 2, y, req)


def reads_scratch_it_has_not_written(x, y, req, memory):
    right(x + 0 * floats(memory, 3)[2], y, req)


writes_behind_its_scratch.scratch = (64, 16)
writes_before_its_scratch.scratch = uses_its_scratch.scratch = reads_scratch_it_has_not_written.scratch = (
    12,
)


_memory = np.zeros(1 << 20, np.float32)


def keeps_results_in_itself(x, y, req):
    result = _memory[: x.size]
    result[...] = x
    sleep(0.0001)  # another thread runs
    right(result, y, req)


def python_that_keeps_its_input(call):
    kept = {}

    def run(ctx, inputs):
        kept["x"] = inputs[0]
        return [kept["x"] * 2]

    return run


def python_with_a_lock(call):
    kept, lock = {}, Lock()

    def run(ctx, inputs):
        with lock:
            kept["x"] = inputs[0]
            return [kept["x"] * 2]

    return run


KERNELS = (
    right, ignores_add, ignores_null, not_in_place, inaccurate, overwrites_its_input, writes_behind, writes_before,
    writes_behind_its_input, reads_outside, writes_behind_its_scratch, writes_before_its_scratch, uses_its_scratch,
    reads_scratch_it_has_not_written, keeps_results_in_itself,
)  # fmt: skip


@pytest.fixture(autouse=True)
def registered(site):
    lines = ["def mx_register_kernels(registry):"]
    for compute in KERNELS:
        lines.append(
            f"    registry.add('check_twice', 'cpu', '{compute.__name__}', MAKE['{compute.__name__}'])"
        )
    lines.append("    registry.add('check_twice', 'cpu', 'python', lambda call: lambda ctx, x: [2 * x[0]])")
    lines.append("    registry.add('check_twice', 'cpu', 'none', lambda call: None)")
    lines.append("    registry.add('check_twice', 'cpu', 'number', lambda call: 3)")
    for name in ("python_that_keeps_its_input", "python_with_a_lock"):
        lines.append(f"    registry.add('check_twice', 'cpu', '{name}', MAKE['{name}'])")
    import builtins

    builtins.MAKE = {compute.__name__: kernel(compute) for compute in KERNELS}
    for make in (python_that_keeps_its_input, python_with_a_lock):
        builtins.MAKE[make.__name__] = make
    site.add("kernels", "\n".join(lines))
    with operators.temporary(Twice):
        yield
    del builtins.MAKE


def test_a_right_kernel_is_compared_for_every_request():
    done = check_kernel("check_twice", variant="right")
    assert {checked.dtype for checked in done} == {"float32"}
    requests = {checked.request for checked in done}
    assert requests == {
        "write, 1 threads",
        "write, 3 threads",
        "write, at odd addresses",
        "null for output 0",
        "add",
        "output 0 in place of input 0",
        "4 threads at the same time",
        "stopped in the middle for another run",
    }


def test_a_python_kernel_is_compared_for_every_type():
    done = check_kernel("check_twice", variant="python")
    assert {checked.dtype for checked in done} == {"float32", "float64", "float16", "bfloat16"}


def test_a_kernel_with_a_lock_of_its_own_passes():
    assert check_kernel("check_twice", variant="python_with_a_lock")


def test_a_right_kernel_with_scratch_memory_passes():
    assert check_kernel("check_twice", variant="uses_its_scratch")


WHERE = r"\[check_twice\] NoParams\(\) on float32\[2, 3\]: "


def test_a_kernel_need_not_be_registered():
    def twice(call):
        return lambda ctx, inputs: [2 * inputs[0]]

    def thrice(call):
        return lambda ctx, inputs: [3 * inputs[0]]

    assert {checked.variant for checked in check_kernel("check_twice", inputs=[(3, 7)], make=twice)} == {
        "twice"
    }
    with pytest.raises(AssertionError, match=r"on float32\[3, 7\]: thrice, function"):
        check_kernel("check_twice", inputs=[(3, 7)], make=thrice, dtype=["float32"])


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("ignores_add", "add"),
        ("ignores_null", "null for output 0"),
        ("not_in_place", "in place of input 0"),
        ("inaccurate", "write, 1 threads"),
        ("overwrites_its_input", r"input 0 \(data\) is overwritten"),
        (
            "writes_behind",
            WHERE
            + r"writes_behind, write, 1 threads: writes outside of output 0 \(output\), which has 24 bytes: "
            "up to 4 bytes behind its end",
        ),
        ("writes_before", r"output 0 \(output\), which has 24 bytes: up to 64 bytes before its beginning"),
        ("writes_behind_its_input", r"input 0 \(data\), which has 24 bytes: up to 64 bytes behind its end"),
        ("reads_outside", "reads_outside, write, 1 threads, result 0"),
        (
            "writes_behind_its_scratch",
            WHERE
            + "writes_behind_its_scratch, write, 1 threads: section 1 of the scratch memory: it has 16 bytes and "
            "is written up to 4 bytes behind its end",
        ),
        (
            "writes_before_its_scratch",
            "section 0 of the scratch memory: it has 12 bytes and is written up to 8 bytes before its beginning",
        ),
        ("reads_scratch_it_has_not_written", "x and y nan location mismatch|nan"),
        ("keeps_results_in_itself", "runs by 4 threads at the same time give other values than a run alone"),
        ("python_that_keeps_its_input", "runs that are stopped for another run in between"),
        ("number", "make returned a int; expected a plan, a kernel table, a function or None"),
    ],
)
def test_wrong_kernels_are_found(variant, message):
    with pytest.raises(AssertionError, match=message):
        check_kernel("check_twice", variant=variant)


def test_a_kernel_that_accepts_nothing_is_an_error_unless_allowed():
    with pytest.raises(AssertionError, match="no kernel none accepts any of"):
        check_kernel("check_twice", variant="none")
    assert check_kernel("check_twice", variant="none", may_decline=True) == []


class Mixed(Operator):
    """The sum of data and of a state that is always float32."""

    name = "check_mixed"
    arguments = ("data", "state")
    differentiable = False
    custom_gradient = True

    def infer_type(self, p, t):
        t.unify(["data", "output"])
        t.assign("state", "float32")

    def reference(self, p, inputs, ctx):
        return [(inputs[0] + inputs[1] / 3).astype(inputs[0].dtype)]


def test_what_reads_float32_is_as_exact_as_float32(site):
    source = """
    import numpy as np

    def compute(factor):
        return lambda call: lambda ctx, x: [x[0] + (x[1] / np.float32(3) * np.float32(factor)).astype(x[0].dtype)]

    def mx_register_kernels(registry):
        registry.add("check_mixed", "cpu", "single", compute(1))
        registry.add("check_mixed", "cpu", "inexact", compute(1.01))
    """
    site.add("mixed", source)
    with operators.temporary(Mixed):
        assert check_kernel("check_mixed", inputs=[(4, 5), None], variant="single", dtype=["float64"])
        with pytest.raises(AssertionError, match="inexact"):
            check_kernel("check_mixed", inputs=[(4, 5), None], variant="inexact", dtype=["float64"])


def into_one_array(call):
    made = np.empty(call.outputs[0].shape, np.float32)

    def run(ctx, inputs):
        np.multiply(inputs[0], 2, out=made)
        return [made]

    return run


def of_the_first_values(call):
    first = []

    def run(ctx, inputs):
        first.append(inputs[0])
        return [first[0] * 2]

    return run


def into_the_input(call):
    def run(ctx, inputs):
        inputs[0].flags.writeable = True
        inputs[0][...] *= 2
        return [inputs[0]]

    return run


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (into_one_array, r"output 0 \(output\) of one run is written over by the next: make an array for each run"),
        (of_the_first_values, "function, on half of the values"),
        (into_the_input, r"input 0 \(data\) is overwritten"),
    ],
)  # fmt: skip
def test_python_kernels_that_keep_something_between_runs_are_found(make, message):
    with operators.temporary(Twice), pytest.raises(AssertionError, match=message):
        check_kernel("check_twice", inputs=[(3, 7)], make=make, dtype=["float32"])
