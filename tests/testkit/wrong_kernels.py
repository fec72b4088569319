# SPDX-License-Identifier: Apache-2.0
"""Native kernels of `acme_own`, 2·data, that are wrong in one way each, and what `mx plugins check` says of them."""

from __future__ import annotations

#: one table a kernel; derived from mx::Plan as the guide shows it
SOURCE = r"""
#include <csignal>
#include <vector>
#include "mx_core/plan.hpp"

namespace {

class Own : public mx::Plan {
 public:
  explicit Own(mx::Signature signature) : Plan("own", std::move(signature)), size(input(0).size()) {
    begin = add_scratch<float>(3);
    row = add_scratch<float>(size);
  }

 protected:
  void execute(const mx::Call& call) const override {
    if (call.wanted(0)) compute(call, call.input<float>(0), call.target<float>(0));
  }
  bool stages(size_t i, const uint8_t* req) const override { return req[i] == MX_REQ_ADD; }
  virtual void compute(const mx::Call& call, const float* x, float* y) const = 0;

  void twice(const float* x, float* y) const {
    for (int64_t i = 0; i < size; ++i) y[i] = 2 * x[i];
  }
  const int64_t size;
  mx::Section begin, row;
};

struct Right final : Own {
  using Own::Own;
  void compute(const mx::Call& call, const float* x, float* y) const override {
    auto* copy = call.scratch<float>(row);
    for (int64_t i = 0; i < size; ++i) copy[i] = x[i];
    twice(copy, y);
  }
};

struct WritesBehindScratch final : Own {
  using Own::Own;
  void compute(const mx::Call& call, const float* x, float* y) const override {
    for (int i = 0; i < 4; ++i) call.scratch<float>(begin)[i] = 1;
    twice(x, y);
  }
};

struct ReadsScratchBeforeItWrites final : Own {
  using Own::Own;
  void compute(const mx::Call& call, const float* x, float* y) const override {
    twice(x, y);
    if (size > 0) y[0] += 0 * call.scratch<float>(row)[0];
  }
};

struct WritesAWholeVector final : Own {  // as long as one of 16 elements has room
  using Own::Own;
  void compute(const mx::Call&, const float* x, float* y) const override {
    int64_t i = 0;
    for (; i + 16 < size; i += 16)
      for (int64_t k = i; k < i + 16; ++k) y[k] = 2 * x[k];
    for (int64_t k = i; size > 16 && k < i + 16; ++k) y[k] = k < size ? 2 * x[k] : 0;
    for (; size <= 16 && i < size; ++i) y[i] = 2 * x[i];
  }
};

struct Dies final : Own {
  using Own::Own;
  void compute(const mx::Call& call, const float* x, float* y) const override {
    if (size == 105 && call.context.threads == 3) std::raise(SIGSEGV);
    twice(x, y);
  }
};

struct KeepsResults final : Own {
  explicit KeepsResults(mx::Signature signature) : Own(std::move(signature)), kept(static_cast<size_t>(size)) {}
  void compute(const mx::Call&, const float* x, float* y) const override {
    for (int64_t i = 0; i < size; ++i) kept[static_cast<size_t>(i)] = x[i];
    twice(kept.data(), y);
  }
  mutable std::vector<float> kept;
};

template <class T>
const mx_kernel_api* table() {
  static const mx_kernel_api api = {
      {sizeof(mx_kernel_api), MX_KERNEL_MAJOR, MX_KERNEL_MINOR}, nullptr,
      [](void*, const mx_signature* signature, mx_plan** result, mx_error* error) {
        return mx::guarded(error, [&] {
          if (signature->inputs[0].dtype != MX_FLOAT32) throw mx::Error(MX_ERROR_UNSUPPORTED, "[own] float32 only");
          *result = new T(mx::signature_of(*signature));
        });
      }};
  return &api;
}

}  // namespace

extern "C" {
const void* right() { return table<Right>(); }
const void* writes_behind_scratch() { return table<WritesBehindScratch>(); }
const void* reads_scratch_before_it_writes() { return table<ReadsScratchBeforeItWrites>(); }
const void* writes_a_whole_vector() { return table<WritesAWholeVector>(); }
const void* dies() { return table<Dies>(); }
const void* keeps_results() { return table<KeepsResults>(); }
}
"""

#: by kernel: texts of the report
SAID = {
    "writes_behind_scratch": (
        "[acme_own] NoParams() on float32[2, 3]: acme, write, 1 threads: section 0 of the scratch memory: it has 12 bytes "
        "and is written up to 4 bytes behind its end",
    ),
    "reads_scratch_before_it_writes": (
        "[acme_own] NoParams() on float32[2, 3]: acme, write, 1 threads",
        "nan",
    ),
    "writes_a_whole_vector": (
        "[acme_own] NoParams() on float32[3, 5, 7]: acme, write, 1 threads: writes outside of output 0 (output), which "
        "has 420 bytes: up to 28 bytes behind its end",
    ),
    "dies": (
        "the process was ended by SIGSEGV after 'make can be imported', in [acme_own] NoParams() on float32[3, 5, 7]: "
        "acme, write, 3 threads",
    ),
    "keeps_results": ("give other values than a run alone",),
}


def module(kernel: str) -> str:
    """A plug-in with an operator and one of the kernels, in `native.so` beside it."""
    return f"""
import ctypes, pathlib
from mx_core.operator import SimpleOp

class Own(SimpleOp):
    name = "acme_own"
    def function(self, p, data):
        return data + data

library = ctypes.CDLL(str(pathlib.Path(__file__).with_name("native.so")))
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

def make(call):
    library.{kernel}.restype = ctypes.c_void_p
    return new(library.{kernel}(), b"mx.kernel.v1", None)

def mx_register_operators(registry):
    registry.add(Own)

def mx_register_kernels(registry):
    registry.add("acme_own", "cpu", "acme", make, 100)
"""
