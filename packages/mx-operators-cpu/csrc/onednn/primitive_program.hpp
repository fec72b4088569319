// SPDX-License-Identifier: Apache-2.0
//
// A plan made of oneDNN primitives: a straight sequence of steps over slots.  A slot is an argument
// of the call or a piece of scratch memory, with a layout; reorders at the borders are steps like
// any other, so that any slot may have the layout that a primitive likes best.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "onednn/engine.hpp"
#include "onednn/memory_desc.hpp"

namespace mx::cpu {

using Slot = int;
using OutputMask = uint32_t;  // bit i: output i
constexpr size_t kMaxOutputs = 32;

// Marks a step: it is needed when that output is wanted.
constexpr OutputMask needed_by(int output) { return 1u << output; }

// Native code between primitives: gets the memory of every slot.
using HostStep = std::function<void(void* const* slots, const Call& call)>;

class ProgramBuilder {
 public:
  using Arguments = std::vector<std::pair<int, Slot>>;  // DNNL_ARG_* -> slot

  ProgramBuilder(Signature signature, const Cost& cost);

  // `offset`: bytes from the beginning of the argument.
  Slot input(int index, const MemoryDesc& desc, size_t offset = 0);
  Slot output(int index, const MemoryDesc& desc, size_t offset = 0);
  Slot scratch(const MemoryDesc& desc);
  const MemoryDesc& desc(Slot slot) const { return slots_[static_cast<size_t>(slot)].desc; }

  // A primitive with its arguments.
  struct Member {
    dnnl::primitive primitive;
    Arguments arguments;
  };
  // Adds the user-mode scratchpad to the arguments.
  template <class PrimitiveDesc>
  Member member(const PrimitiveDesc& desc, Arguments arguments) {
    const MemoryDesc pad = desc.scratchpad_desc();
    if (pad.get_size() > 0) arguments.emplace_back(DNNL_ARG_SCRATCHPAD, scratch(pad));
    return {dnnl::primitive(desc.get()), std::move(arguments)};
  }
  // Appends a primitive.
  template <class PrimitiveDesc>
  void step(const PrimitiveDesc& desc, Arguments arguments, OutputMask mask) {
    append({member(desc, std::move(arguments))}, mask);
  }
  // Appends primitives that write different memory and were made for one thread (TeamScope): the team runs them side
  // by side.
  void side_by_side(std::vector<Member> members, OutputMask mask) { append(std::move(members), mask); }
  // Appends native code that touches the given slots.
  void host(HostStep body, std::vector<Slot> slots, OutputMask mask);

  // A part of a slot as a slot: `first` bytes after its beginning.
  Slot part(Slot whole, const MemoryDesc& desc, size_t first);

  // `from`, which no step may write, in the layout `want`: itself, or scratch after a reorder.
  Slot as(Slot from, const MemoryDesc& want, OutputMask mask);
  // Where a primitive that produces the layout `have` for `output` should write; finish with deliver.
  Slot target(Slot output, const MemoryDesc& have);
  void deliver(Slot from, Slot output, OutputMask mask);

  PlanPtr build();

  // Attributes with the scratchpad in user mode.
  static dnnl::primitive_attr attributes();

 private:
  friend class PrimitiveProgram;
  enum class Kind { input, output, scratch };
  struct SlotInfo {
    Kind kind;
    int index;          // of the argument
    MemoryDesc desc;
    size_t offset = 0;  // in the argument or the scratch, or after the beginning of `whole`, bytes
    Slot whole = -1;    // of which it is a part
  };
  struct Step {
    std::vector<Member> members;  // empty: `host` runs
    HostStep host;
    std::vector<Slot> touched;
    OutputMask mask;
  };
  struct Reordered {
    Slot from, to;
    size_t step;
  };
  void append(std::vector<Member> members, OutputMask mask);
  std::vector<Slot> with_wholes(std::vector<Slot> slots) const;
  size_t place_scratch();

  Signature signature_;
  Cost cost_;
  TeamScope threads_;
  std::vector<SlotInfo> slots_;
  std::vector<Step> steps_;
  std::vector<Reordered> reordered_;  // what `as` made
};

}  // namespace mx::cpu
