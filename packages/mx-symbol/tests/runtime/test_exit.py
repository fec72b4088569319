# SPDX-License-Identifier: Apache-2.0
"""Daemon threads inside native passes while the interpreter ends."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.long

CODE = """
import threading, time
from mx_core.context import cpu
from mx_ndarray import nd
from mx_symbol import sym
from mx_symbol.passes import elementwise_fusion

x = net = sym.Variable("x")
for i in range(1200):
    net = sym.exp(net) if i % 50 else sym.broadcast_add(net, sym.sum(net, axis=0, keepdims=True))
find, inside = elementwise_fusion.fusion_groups, threading.Event()

def again(graph, specs, forward, values, kind, *rest):
    known_values, known_kinds = {}, {}
    def note(table, ask):
        return lambda key: table.setdefault(key, ask(key))
    find(graph, specs, forward, note(known_values, values), note(known_kinds, kind), *rest)
    inside.set()
    while True:  # without Python code inside, so that the thread waits for the interpreter in native code
        find(graph, specs, forward, known_values.__getitem__, known_kinds.__getitem__, *rest)

def work():
    net.bind(cpu(), {"x": nd.ones((2, 3))}).forward()

elementwise_fusion.fusion_groups = again
threading.Thread(target=work, daemon=True).start()
assert inside.wait(60)
time.sleep(0.1)
"""


@pytest.mark.timeout(240)
def test_the_process_ends_well_while_a_daemon_thread_looks_for_fusion_groups():
    for _ in range(3):
        command = [sys.executable, "-c", CODE]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
