# SPDX-License-Identifier: Apache-2.0
import copy
import pickle
import subprocess
import sys
import threading
from contextlib import ExitStack

import numpy as np
import pytest

from mx_core import Context, cpu, cpu_pinned, cpu_shared, current_context, gpu, num_gpus
from mx_core.context import gpu_memory_info
from mx_core.errors import ArgumentError, PluginError


def test_names_numbers_equality():
    assert str(cpu()) == "cpu(0)" and repr(gpu(2)) == "gpu(2)"
    assert (cpu().device_typeid, gpu().device_typeid) == (1, 2)
    assert (cpu_pinned().device_typeid, cpu_shared().device_typeid) == (3, 5)
    assert cpu(1) == Context("cpu", 1) != gpu(1)
    assert len({cpu(), cpu(0), Context(cpu()), cpu(1)}) == 2
    assert cpu() != "cpu(0)"


def test_with_sets_the_default_of_this_thread_only():
    assert current_context() == cpu()
    with gpu(1) as outer:
        seen = []
        thread = threading.Thread(target=lambda: seen.append(current_context()))
        thread.start()
        thread.join()
        with cpu(3):
            assert current_context() == cpu(3)
        assert current_context() == outer == gpu(1)
    assert current_context() == cpu() and seen == [cpu()]


def test_the_default_is_an_attribute_of_the_class():
    assert Context.default_ctx == cpu()
    with gpu(1):
        assert Context.default_ctx == cpu(0).default_ctx == gpu(1)


def test_the_default_can_be_set_in_each_thread():
    seen = []

    def other():
        Context.default_ctx = gpu(3)
        with cpu(4):
            Context.default_ctx = cpu(5)
            seen.append(current_context())
        seen.append(current_context())

    with cpu(1):
        Context.default_ctx = cpu(2)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert current_context() == Context.default_ctx == cpu(2)
    assert current_context() == cpu()
    assert seen == [cpu(5), gpu(3)]


def test_an_exception_restores_the_default():
    with pytest.raises(KeyError), gpu(0):
        raise KeyError
    assert current_context() == cpu()


def test_copies_and_pickles_are_equal():
    for context in (cpu(1), gpu(3)):
        assert pickle.loads(pickle.dumps(context)) == copy.deepcopy(context) == context


def test_wrong_values_are_refused(site):
    with pytest.raises(ArgumentError, match="unknown device type 'tpu'.*cpu, gpu"):
        Context("tpu")
    for device_id in (-1, 1.5, "0"):
        with pytest.raises(ArgumentError, match="device_id"):
            Context("cpu", device_id)
    assert Context("cpu", np.int64(2)) == cpu(2)


def test_a_device_plugin_brings_its_type_and_count(site):
    site.add(
        "tpu",
        """
        def mx_register_devices(registry):
            registry.add("tpu", 70, lambda: 4, dict)
            registry.add("gpu", 2, lambda: 2, dict)
        """,
    )
    try:
        assert Context("tpu", 1).device_typeid == 70
        assert num_gpus() == 2
    finally:
        del Context.devstr2type["tpu"], Context.devtype2str[70]


def test_free_memory_is_the_plugins_to_tell(site):
    site.add(
        "free_memory",
        """
        class Told:
            capsule = None
            def memory(self, device_id):
                return 10 + device_id, 20
        def mx_register_devices(registry):
            registry.add("gpu", 2, lambda: 2, Told)
        """,
    )
    assert gpu_memory_info() == (10, 20) and gpu_memory_info(1) == (11, 20)


def test_without_a_gpu_plugin_there_are_no_gpus(site):
    assert num_gpus() == 0
    with pytest.raises(PluginError, match="gpu"):
        gpu_memory_info()


SCOPES = """
import random, signal
from mx_core.context import cpu, current_context

def press(*_):
    raise KeyboardInterrupt

def work():
    while True:
        with cpu(1), cpu(2):
            pass

signal.signal(signal.SIGALRM, press)
draw = random.Random(0)
for round in range(1500):
    try:
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-6, 60e-6))
        work()
    except KeyboardInterrupt:
        pass
    assert current_context() == cpu(0), round
"""


def test_ctrl_c_leaves_the_block() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCOPES], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_stack_of_blocks_enters_it() -> None:
    with ExitStack() as stack:
        assert stack.enter_context(cpu(1)) == current_context() == cpu(1)
    assert current_context() == cpu(0)


@pytest.mark.parametrize("given", ["cpu", 1, None])
def test_the_default_is_a_context(given):
    with pytest.raises(
        ArgumentError, match=r"default_ctx: expected a Context, such as mx.cpu\(\), got " + repr(given)
    ):
        Context.default_ctx = given
    assert current_context() == cpu()
