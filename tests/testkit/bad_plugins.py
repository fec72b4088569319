# SPDX-License-Identifier: Apache-2.0
"""Plug-ins that are wrong in one way each, what a program says of them, and what `mx plugins check` says.

In each case the program of `test_bad_plugins.py` goes on: `tanh`, a bound graph and an image work.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

HEAD = """
from mx_core.operator import Operator, Params, SimpleOp

class Own(SimpleOp):
    name = "acme_own"
    def function(self, p, data):
        return data + data

def good(call):
    return lambda ctx, inputs: [inputs[0] * 2]

def bad(*arguments, **options):
    raise RuntimeError("no licence")

def leave(*arguments, **options):
    raise SystemExit(0)

"""


@dataclass(frozen=True)
class Bad:
    """One plug-in.

    Attributes
    ----------
    source : its module
    said : what standard error of a program that uses mx has
    checked : what `mx plugins check` says; None where the plug-in does not load
    """

    source: str
    said: str = ""
    checked: str | None = None
    requires: str = ""
    group: str = "mx.plugins.v1"


def operators(*classes: str, body: str = "") -> str:
    adds = "".join(f"\n    registry.add({name})" for name in classes)
    return HEAD + dedent(body) + f"\ndef mx_register_operators(registry):{adds}\n"


def kernel(line: str, body: str = "") -> str:
    return operators("Own", body=body) + f"\ndef mx_register_kernels(registry):\n    registry.add({line})\n"


def hook(name: str, line: str, body: str = "") -> str:
    return HEAD + dedent(body) + f"\ndef mx_register_{name}(registry):\n    registry.add({line})\n"


def reference(body: str) -> str:
    return operators(
        "Full",
        body=f"""
        import numpy as np

        class Full(Operator):
            name = "acme_full"
            differentiable = False
            def infer_shape(self, p, s):
                s.assign("output", s.get("data"))
            def reference(self, p, inputs, ctx):
                x = inputs[0]
                return {body}
        """,
    )


def native(function: str, minor: str = "0") -> str:
    body = f'''
        import ctypes, pathlib
        library = ctypes.CDLL(str(pathlib.Path(__file__).with_name("native.so")))
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

        def make(call):
            function = library.{function}
            function.restype = ctypes.c_void_p
            name = b"mx.plan.v1" if "plan_of" in "{function}" else b"mx.kernel.v1"
            return new(function(), name, None)
        '''
    return kernel('"tanh", "cpu", "acme", make, 100', body)


#: compiled once: tables and plans that are wrong
NATIVE = r"""
#include <cmath>
#include <stdexcept>
#include "mx_core/kernel.h"
namespace {
int32_t throws(const mx_plan*, const mx_kernel_context*, const mx_tensor*, uint32_t, const mx_tensor*,
               const uint8_t*, uint32_t, mx_error*) { throw std::runtime_error("boom in run"); }
int32_t fails(const mx_plan*, const mx_kernel_context*, const mx_tensor*, uint32_t, const mx_tensor*,
              const uint8_t*, uint32_t, mx_error*) { return MX_ERROR; }
void nothing(mx_plan*) {}
mx_plan plan(uint32_t size, uint16_t major, decltype(mx_plan::run) run) {
  mx_plan made{};
  made.head = {size, major, 0};
  made.run = run;
  made.retain = nothing;
  made.release = nothing;
  return made;
}
template <mx_plan* P> int32_t gives(void*, const mx_signature*, mx_plan** made, mx_error*) {
  *made = P;
  return MX_OK;
}
// tanh of float32, right unless two threads run it at the same time: it adds up in memory of the plan
volatile float member;
int32_t adds_in_member(const mx_plan*, const mx_kernel_context*, const mx_tensor* inputs, uint32_t,
                       const mx_tensor* outputs, const uint8_t* req, uint32_t, mx_error*) {
  const auto* x = static_cast<const float*>(inputs[0].data);
  auto* y = static_cast<float*>(outputs[0].data);
  for (size_t i = 0; req[0] != MX_REQ_NULL && i < inputs[0].bytes / sizeof(float); ++i) {
    member = 0;
    for (int part = 0; part < 4; ++part) member = member + x[i] / 4;
    y[i] = (req[0] == MX_REQ_ADD ? y[i] : 0) + std::tanh(member);
  }
  return MX_OK;
}
mx_plan throwing = plan(sizeof(mx_plan), 1, throws), failing = plan(sizeof(mx_plan), 1, fails),
        null_run = plan(sizeof(mx_plan), 1, nullptr), short_plan = plan(24, 1, fails),
        later = plan(sizeof(mx_plan), 2, fails), shared = plan(sizeof(mx_plan), 1, adds_in_member);
int32_t throwing_prepare(void*, const mx_signature*, mx_plan**, mx_error*) {
  throw std::runtime_error("boom in prepare");
}
int32_t silent_prepare(void*, const mx_signature*, mx_plan**, mx_error*) { return MX_ERROR_VALUE; }
int32_t prepare_float32(void*, const mx_signature* signature, mx_plan** made, mx_error*) {
  if (signature->inputs[0].dtype != MX_FLOAT32) return MX_ERROR_UNSUPPORTED;
  *made = &shared;
  return MX_OK;
}
int32_t no_plan(void*, const mx_signature*, mx_plan**, mx_error*) { return MX_OK; }
mx_kernel_api table(decltype(mx_kernel_api::prepare) prepare, uint32_t size = sizeof(mx_kernel_api),
                    uint16_t major = 1) { return {{size, major, 0}, nullptr, prepare}; }
mx_kernel_api tables[] = {table(nullptr), table(gives<&throwing>), table(gives<&failing>),
                          table(gives<&null_run>), table(gives<&short_plan>), table(throwing_prepare),
                          table(silent_prepare), table(no_plan), table(no_plan, 8), table(no_plan, 24, 2),
                          table(gives<&later>), table(prepare_float32)};
}  // namespace
extern "C" {
#define TABLE(name, i) void* name() { return &tables[i]; }
TABLE(null_prepare, 0) TABLE(run_throws, 1) TABLE(run_fails, 2) TABLE(run_is_null, 3) TABLE(plan_is_short, 4)
TABLE(prepare_throws, 5) TABLE(prepare_fails, 6) TABLE(prepare_gives_none, 7) TABLE(table_is_short, 8)
TABLE(table_is_later, 9) TABLE(plan_is_later, 10) TABLE(plan_has_a_member, 11)
void* plan_of_null() { return &null_run; }
void* plan_of_throw() { return &throwing; }
}
"""

ASIDE = "is set aside"
LEAVES = "ends the program: SystemExit(0)"
#: by name; the entry points sort before those of the project
BAD: dict[str, Bad] = {
    # it cannot be loaded
    "import_error": Bad("raise ImportError('no driver')", "no driver"),
    "missing_module": Bad("import no_such_module", "No module named 'no_such_module'"),
    "syntax_error": Bad("def", "SyntaxError"),
    "exits": Bad("raise SystemExit(3)", "ends the program"),
    "later_api": Bad("MX_HOOK_API = (2, 0)", "needs hook API (2, 0)"),
    "later_minor_api": Bad("MX_HOOK_API = (1, 9)", "needs hook API (1, 9)"),
    "text_api": Bad("MX_HOOK_API = '1.0'", "expected a pair of integers"),
    "other_core": Bad(HEAD, "needs mx-core>=900", requires="mx-core>=900"),
    "later_group": Bad(HEAD, "made for hooks mx.plugins.v2", group="mx.plugins.v2"),
    "unknown_hook": Bad("def mx_register_teapots(registry): pass", "unknown hook 'mx_register_teapots'"),
    "half_way": Bad(operators("Own") + "    raise RuntimeError('half way')\n", "half way"),
    "asks_while_loading": Bad("from mx_core import plugins\nplugins.plugins()", "uses a registry while it is being"),
    "wrong_info": Bad("MX_PLUGIN = 'a text'", "expected mx_core.PluginInfo"),
    # names that are taken
    "takes_operator": Bad(operators("Own").replace("acme_own", "tanh"), "'tanh' is registered by plug-in 'operators'"),
    "takes_alias": Bad(operators("Own").replace('"acme_own"', '"acme_own"; aliases = ("relu",)'), "'relu' is registered"),
    "takes_codec": Bad(hook("image_codecs", '"jpeg", (".jpg",), bad, bad, None, 99'), "'jpeg' is registered by plug-in 'io'"),
    "takes_store": Bad(hook("kvstores", '"local", dict'), "'local' is registered by plug-in 'kvstore'"),
    "takes_backward": Bad(operators("Clash", body="""
        class Clash(Operator):
            name = "_backward_FullyConnected"
            differentiable = False
        """), "_backward_FullyConnected"),
    "twice": Bad(operators("Own", "Own"), "'acme_own' is registered by plug-in"),
    # what is registered is malformed
    "no_operator": Bad(operators("int"), "expected an Operator class"),
    "nameless": Bad(operators("Nameless", body="class Nameless(Operator):\n    differentiable = False"), "has no name"),
    "wrong_priority": Bad(kernel('"tanh", "cpu", "acme", good, "high"'), "priority must be a whole number"),
    "wrong_stage": Bad(hook("graph_passes", '"acme", "grph", bad'), "expected a stage of"),
    "wrong_device_type": Bad(hook("devices", '"acme", 7, bad, bad'), "at least 64"),
    # contributions that do not work
    "constructor_raises": Bad(operators("Broken", body="""
        class Broken(SimpleOp):
            name = "acme_broken"
            def __init__(self):
                raise RuntimeError("no licence")
            def function(self, p, data):
                return data
        """), ASIDE, "no licence"),
    "kernel_without_module": Bad(kernel('"tanh", "cpu", "acme", "no_such_module:make", 100'), ASIDE, "No module named"),
    "kernel_without_function": Bad(kernel('"tanh", "cpu", "acme", "json:no_such", 100'), ASIDE, "no_such"),
    "make_raises": Bad(kernel('"tanh", "cpu", "acme", bad, 100'), ASIDE, "no licence"),
    "supports_raises": Bad(kernel('"tanh", "cpu", "acme", good, 100, supports=bad'), ASIDE, "no licence"),
    "make_gives_a_number": Bad(kernel('"tanh", "cpu", "acme", lambda call: 3, 100'), ASIDE, "FAILED"),
    "unknown_operator": Bad(kernel('"tanhh", "cpu", "acme", good'), "", "there is no operator 'tanhh'"),
    "unknown_device": Bad(kernel('"tanh", "tpu", "acme", good'), "", "there is no"),
    "generator_raises": Bad(hook("kernel_generators", '"cpu", "acme", bad, 100'), ASIDE, "no licence"),
    "pass_raises": Bad(hook("graph_passes", '"acme", "graph", bad'), ASIDE, "no licence"),
    "pass_without_module": Bad(hook("graph_passes", '"acme", "graph", "no_such_module:apply"'), ASIDE, "No module named"),
    "pass_gives_none": Bad(hook("graph_passes", '"acme", "graph", lambda graph: None'), ASIDE, "expected a Graph"),
    "pass_asks_a_circle": Bad(hook("graph_passes", '"acme", "graph", lambda graph: graph, ("acme",)'), ASIDE, ASIDE[3:]),
    "sniff_raises": Bad(hook("image_codecs", '"acme", (".acme",), bad, bad, None, 99'), ASIDE, "no licence"),
    "selection_raises": Bad(HEAD + "def mx_select_kernel(op, call):\n    raise RuntimeError('no mood')\n", ASIDE, "no mood"),
    "selection_leaves": Bad(HEAD + "def mx_select_kernel(op, call):\n    raise SystemExit(0)\n", LEAVES, "SystemExit"),
    "selection_gives_a_list": Bad(
        HEAD + "def mx_select_kernel(candidates):\n    return list(candidates)\n", "expected one of the candidates or None, got [",
        "expected one of the candidates or None, got ["),
    "registration_gives_a_list": Bad(HEAD + "def mx_register_operators(registry):\n    return [Own]\n", "returned [<class"),
    "diagnostics_give_a_list": Bad(HEAD + "def mx_diagnostics():\n    return ['a line']\n", "", "expected a mapping of texts"),
    "stub_modules_leave": Bad(HEAD + "def mx_stub_modules():\n    raise SystemExit(0)\n", "", "SystemExit"),
    "parameter_without_opt": Bad(operators("Own", body="""
        class OwnParam(Params):
            k: float = 2.0
        """), "write k: float = opt(2.0, 'what it is')"),
    "engine_does_not_start": Bad(hook("engines", '"Acme", bad, 999'), "does not start", "no licence"),
    # contributions that end the process
    "kernel_leaves": Bad(kernel('"tanh", "cpu", "acme", leave, 1000'), LEAVES, "SystemExit"),
    "pass_writes_attributes": Bad(hook("graph_passes", '"acme", "graph", write', """
        def write(graph):
            for node in graph.find("FullyConnected"):
                node.attrs["x"] = "1"
            return graph
        """), checked="it writes into the graph that it gets: into nodes first, second"),
    "pass_leaves": Bad(hook("graph_passes", '"acme", "graph", leave'), LEAVES, "SystemExit"),
    "sniff_leaves": Bad(hook("image_codecs", '"acme", (".acme",), leave, bad, None, 99'), LEAVES, "SystemExit"),
    "decode_leaves": Bad(
        hook("image_codecs", '"acme", (".acme",), lambda head: False, leave, None, 99'), "", "SystemExit"
    ),
    "engine_leaves": Bad(hook("engines", '"Acme", leave, 999'), LEAVES, "SystemExit"),
    "optimizer_leaves": Bad(hook("optimizers", '"acme", leave'), "", "SystemExit"),
    "metric_leaves": Bad(hook("metrics", '"acme", lambda: leave()'), "", "SystemExit"),
    "operator_leaves": Bad(operators("Leaves", body="""
        class Leaves(SimpleOp):
            name = "acme_leaves"
            def __init__(self):
                raise SystemExit(0)
            def function(self, p, data):
                return data
        """), LEAVES, "SystemExit"),
    "reference_leaves": Bad(reference("leave()"), "", "the process ended with status 0"),
    "store_without_contract": Bad(hook("kvstores", '"acme", lambda name: {}'), "", "FAILED"),
    "optimizer_raises": Bad(hook("optimizers", '"acme", bad'), "", "no licence"),
    "optimizer_is_a_list": Bad(hook("optimizers", '"acme", lambda: [1]'), "", "list lacks create_state_multi_precision"),
    "metric_raises": Bad(hook("metrics", '"acme", lambda: bad()'), "", "no licence"),
    "diagnostics_raise": Bad(HEAD + "def mx_diagnostics():\n    raise RuntimeError('no licence')\n", "", "no licence"),
    # operators that contradict themselves: found by the check, harmless to others
    "reference_raises": Bad(reference("bad()"), "", "last: RuntimeError: no licence"),
    "reference_of_wrong_shape": Bad(reference("[x[:-1]]"), "", "FAILED"),
    "reference_of_wrong_type": Bad(reference("[x.astype('int32')]"), "", "FAILED"),
    "reference_of_two": Bad(reference("[x, x]"), "", "FAILED"),
    "reference_changes_input": Bad(reference("[np.add(x, 1, out=x)]"), "", "FAILED"),
    "wrong_gradient": Bad(operators("Wrong", body="""
        class Wrong(SimpleOp):
            name = "acme_wrong"
            def function(self, p, data):
                return data * data
            def gradient_function(self, p, out_grad, data):
                return out_grad * data
        """), "", "gradient of data"),
    "branches_on_a_value": Bad(operators("Branching", body="""
        class Branching(SimpleOp):
            name = "acme_branching"
            def function(self, p, data):
                if data > 0:
                    return data
                return -data
        """), "", "Branching.function cannot be traced"),
    "says_there_is_no_gradient": Bad(operators("Twice", body="""
        class Twice(SimpleOp):
            name = "acme_twice"
            differentiable = False
            def function(self, p, data):
                return 2 * data
        """), "", "differentiable = False says that the gradient of data is zero"),
    "assigns_to_no_tensor": Bad(operators("Typo", body="""
        class Typo(Operator):
            name = "acme_typo"
            differentiable = False
            def infer_shape(self, p, s):
                s.assign("outptu", s.get("data"))
            def reference(self, p, inputs, ctx):
                return [inputs[0]]
        """), "", "did you mean 'output'?"),
    "infers_nothing": Bad(operators("Silent", body="""
        class Silent(Operator):
            name = "acme_silent"
            differentiable = False
            def infer_shape(self, p, s):
                s.get("data")
            def reference(self, p, inputs, ctx):
                return [inputs[0]]
        """), "", "[acme_silent] output: its shape stays unknown for inputs of known shapes: data"),
    "iterator_of_tuples": Bad(hook("data_iters", '"Acme", Pairs', """
        class Pairs:
            batch_size, provide_data, provide_label = 2, [], []
            def __init__(self):
                self.left = 2
            def __iter__(self):
                return self
            def next(self):
                self.left -= 1
                if self.left < 0:
                    raise StopIteration
                return 1, 2
            __next__ = next
            reset = iter_next = getdata = getlabel = getpad = lambda self: None
        """), "", "next gives a tuple of 2; expected a DataBatch"),
    "kernel_wrong_below_zero": Bad(
        kernel('"acme_own", "cpu", "acme", lambda call: (lambda ctx, inputs: [abs(inputs[0]) * 2])'), "",
        "FAILED  kernels 'acme_own/cpu/acme'"),
    "wrong_kernel": Bad(kernel('"acme_own", "cpu", "acme", lambda call: (lambda ctx, inputs: [inputs[0] * 3])'), "",
                        "FAILED  kernels 'acme_own/cpu/acme'"),
    "wrong_kernel_of_a_fused_layer": Bad(
        hook("kernels", '"_fused_FullyConnected", "cpu", "acme", lambda call: make(call.outputs[0].shape), 1', """
        def make(shape):
            import numpy as np
            return lambda ctx, inputs: [np.zeros(shape, inputs[0].dtype)]
        """), "", "_fused_FullyConnected, which graph passes make, equals the reference"),
    "endless_inference": Bad(operators("Endless", body="""
        class Endless(Operator):
            name = "acme_endless"
            differentiable = False
            def infer_shape(self, p, s):
                while True:
                    pass
        """), "", "no end within 10 s"),
    "dies_when_checked": Bad(kernel('"acme_own", "cpu", "acme", lambda call: __import__("os").abort()'), "", "SIGABRT"),
    # native tables
    "null_prepare": Bad(native("null_prepare"), "lacks prepare", "lacks prepare"),
    "null_run": Bad(native("run_is_null"), "lacks run", "lacks run"),
    "null_run_plan": Bad(native("plan_of_null"), "lacks run", "lacks run"),
    "short_plan": Bad(native("plan_is_short"), "mx.plan.v1", "mx.plan.v1"),
    "later_plan": Bad(native("plan_is_later"), "offers 2.0", "offers 2.0"),
    "short_table": Bad(native("table_is_short"), "mx.kernel.v1", "mx.kernel.v1"),
    "later_table": Bad(native("table_is_later"), "offers 2.0", "offers 2.0"),
    "prepare_throws": Bad(native("prepare_throws"), "boom in prepare", "boom in prepare"),
    "plan_has_a_member": Bad(native("plan_has_a_member"), "", "give other values than a run alone"),
    "prepare_gives_none": Bad(native("prepare_gives_none"), "prepare gave no plan", "prepare gave no plan"),
}  # fmt: skip

#: kernels whose failure is the operation's, as it has begun: an error that names the plug-in
FAILING = {
    "run_throws": (native("run_throws"), "kernel 'acme' of plug-in 'aaa' threw a C++ exception: boom in run"),
    "plan_throws": (
        native("plan_of_throw"),
        "kernel 'acme' of plug-in 'aaa' threw a C++ exception: boom in run",
    ),
    "run_fails": (native("run_fails"), "kernel 'acme' of plug-in 'aaa' failed with code"),
    "prepare_fails": (native("prepare_fails"), "from kernel 'acme' of plug-in 'aaa'"),
}


def install(folder: Path, source: str, requires: str = "", group: str = "mx.plugins.v1") -> None:
    """Writes a distribution `acme-bad` with the plug-in `aaa`, which sorts before all others."""
    (folder / "acme_bad.py").write_text(source)
    info = folder / "acme_bad-1.0.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.1", "Name: acme-bad", "Version: 1.0"]
    lines += [f"Requires-Dist: {requires}"] if requires else []
    (info / "METADATA").write_text("\n".join(lines) + "\n")
    (info / "entry_points.txt").write_text(f"[{group}]\naaa = acme_bad\n")
