# SPDX-License-Identifier: Apache-2.0
"""What writes files, as the head of programs: `write(kind, value)` writes those of a kind into the current folder."""

from __future__ import annotations

WRITERS = (
    "params", "npy", "npz", "safetensors", "symbol", "states", "module", "rec", "idx", "im2rec", "list", "profile",
)  # fmt: skip

WRITING = """
import resource, signal, sys, os
import numpy as np
import mx
from mx_io.recordio import MXRecordIO, MXIndexedRecordIO
from mx_io.im2rec import pack
from mx_io.im2rec.listing import ListEntry, write_list
os.makedirs("images", exist_ok=True)
open("images/a.jpg", "wb").write(b"x" * 2000)
net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=64, name="fc")
for i in range(30): net = mx.sym.FullyConnected(net, num_hidden=64, name=f"fc{i}")
loss = mx.sym.SoftmaxOutput(net, name="softmax")
module = mx.mod.Module(loss)
module.bind([("data", (2, 64))], [("softmax_label", (2,))])
module.init_params(mx.init.One())
module.init_optimizer(optimizer="adam")
module.forward_backward(mx.io.DataBatch([mx.nd.ones((2, 64))], [mx.nd.zeros((2,))]))
module.update()
def write(kind, value):
    big = mx.nd.full((20_000,), value)
    if kind in ("params", "npy", "npz", "safetensors"):
        mx.nd.save("a." + kind, {"x": big} if kind != "npy" else big)
    elif kind == "symbol": net.save("a.symbol")
    elif kind == "states": module.save_optimizer_states("a.states")
    elif kind == "module": module.save_params("a.module")
    elif kind == "rec":
        with MXRecordIO("a.rec", "w") as file:
            for _ in range(100): file.write(b"r" * 1000)
    elif kind == "idx":
        with MXIndexedRecordIO("a.idx", "b.rec", "w") as file:
            for key in range(4000): file.write_idx(key, b"r" * 8)
    elif kind == "im2rec": pack([ListEntry(i, (0.0,), "a.jpg") for i in range(60)], "images", "a", pass_through=True)
    elif kind == "list": write_list("a.list", [ListEntry(i, (float(value),), "images/a.jpg") for i in range(4000)])
    elif kind == "profile":
        mx.profiler.set_config(filename="a.profile"); mx.profiler.set_state("run")
        for _ in range(300): (big + 1).wait_to_read()
        mx.profiler.set_state("stop"); mx.profiler.dump()
kind = sys.argv[1]
write(kind, 1)
names = [n for n in sorted(os.listdir()) if os.path.isfile(n)]
before = {n: open(n, "rb").read() for n in names}
def named(error): return any(name.split(".")[0] + "." in str(error) for name in names)
def left():
    assert sorted(os.listdir()) == sorted([*names, "images"]), os.listdir()
    return {n: open(n, "rb").read() for n in names}
as_they_come = kind in ("rec", "idx")  # records have no draft
"""
