// SPDX-License-Identifier: Apache-2.0
#include "onednn/primitive_program.hpp"

#include <algorithm>

#include "onednn/frame_pool.hpp"

namespace mx::cpu {
namespace {

void demand(dnnl_status_t status, const char* what) { dnnl::error::wrap_c_api(status, what); }

}  // namespace

class PrimitiveProgram final : public Plan {
 public:
  PrimitiveProgram(ProgramBuilder&& builder, size_t scratch)
      : Plan(std::move(builder.signature_), builder.cost_), slots_(std::move(builder.slots_)),
        steps_(std::move(builder.steps_)) {
    if (outputs_.size() > kMaxOutputs) throw Unsupported{};
    add_scratch(scratch);
    for (const Step& step : steps_) {
      for (Slot slot : step.touched) {
        const SlotInfo& info = slots_[static_cast<size_t>(slot)];
        if (info.kind == Kind::output) written_[static_cast<size_t>(info.index)] |= step.mask;
      }
    }
  }

 private:
  using SlotInfo = ProgramBuilder::SlotInfo;
  using Step = ProgramBuilder::Step;
  using Kind = ProgramBuilder::Kind;

  // Everything one run needs to write to; owned by one thread at a time.
  struct Frame {
    std::vector<dnnl::stream> streams;  // per member of a step
    std::vector<dnnl::memory> memories;  // per slot, of those that primitives take
    std::vector<void*> data;             // per slot
    std::vector<std::vector<std::vector<dnnl_exec_arg_t>>> arguments;  // per step and member
  };

  Frame make_frame() const {
    Frame frame;
    frame.memories.resize(slots_.size());
    for (const Step& step : steps_)
      for (const auto& member : step.members)
        for (const auto& argument : member.arguments) {
          const auto slot = static_cast<size_t>(argument.second);
          if (!frame.memories[slot]) frame.memories[slot] = {slots_[slot].desc, cpu_engine(), DNNL_MEMORY_NONE};
        }
    frame.data.resize(slots_.size());
    for (const Step& step : steps_) {
      auto& made = frame.arguments.emplace_back();
      for (const auto& member : step.members) {
        std::vector<dnnl_exec_arg_t> arguments;
        for (const auto& [name, slot] : member.arguments)
          arguments.push_back({name, frame.memories[static_cast<size_t>(slot)].get()});
        made.push_back(std::move(arguments));
      }
      while (frame.streams.size() < step.members.size()) frame.streams.emplace_back(cpu_engine());
    }
    return frame;
  }

  void bind(Frame& frame, const Call& call) const {
    auto* scratch = n_scratch > 0 ? static_cast<char*>(call.context.scratch[0]) : nullptr;
    for (size_t i = 0; i < slots_.size(); ++i) {
      const SlotInfo& slot = slots_[i];
      const auto index = static_cast<size_t>(slot.index);
      void* data = nullptr;
      switch (slot.kind) {
        case Kind::input: data = static_cast<char*>(call.inputs[index].data) + slot.offset; break;
        case Kind::output: data = call.target(index) + slot.offset; break;
        case Kind::scratch: data = scratch + slot.offset; break;
      }
      frame.data[i] = data;
      if (frame.memories[i])
        demand(dnnl_memory_set_data_handle(frame.memories[i].get(), data), "cannot bind an argument");
    }
  }

  OutputMask wanted(const uint8_t* req) const {
    OutputMask wanted = 0;
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (req[i] != MX_REQ_NULL) wanted |= needed_by(static_cast<int>(i));
    return wanted;
  }

  // Unwanted outputs are computed, too, by steps that others need.
  bool stages(size_t i, const uint8_t* req) const override {
    if (req[i] == MX_REQ_NULL) return (written_[i] & wanted(req)) != 0;
    return req[i] == MX_REQ_ADD;
  }

  void execute(const Call& call) const override {
    const OutputMask wanted = this->wanted(call.req);
    if (wanted == 0) return;
    const auto frame = frames_.take();
    bind(*frame, call);
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      if ((step.mask & wanted) == 0) continue;
      if (step.host) {
        step.host(frame->data.data(), call);
        continue;
      }
      parallel_shares(static_cast<int64_t>(step.members.size()), [&](int64_t begin, int64_t end) {
        for (auto k = static_cast<size_t>(begin); k < static_cast<size_t>(end); ++k) {
          const auto& arguments = frame->arguments[i][k];
          demand(dnnl_primitive_execute(step.members[k].primitive.get(), frame->streams[k].get(),
                                        static_cast<int>(arguments.size()), arguments.data()),
                 "a primitive failed");
        }
      });
    }
  }

  const std::vector<SlotInfo> slots_;
  const std::vector<Step> steps_;
  OutputMask written_[kMaxOutputs] = {};  // per output: union of the masks of the steps that write it
  mutable FramePool<Frame> frames_{[this] { return make_frame(); }, 1};
};

ProgramBuilder::ProgramBuilder(Signature signature, const Cost& cost)
    : signature_(std::move(signature)), cost_(cost), threads_(cost.parallel() ? team_size() : 1) {}

namespace {

// Bytes from the first element to after the last one; oneDNN rounds up to whole strides.
size_t reach(const MemoryDesc& desc) {
  if (desc.get_format_kind() != dnnl::memory::format_kind::blocked || desc.get_inner_nblks() > 0 || desc.get_size() == 0)
    return desc.get_size();
  const Dims dims = desc.get_dims(), strides = desc.get_strides();
  int64_t last = 0;
  for (size_t i = 0; i < dims.size(); ++i) last += (dims[i] - 1) * strides[i];
  return static_cast<size_t>(last + 1) * dnnl::memory::data_type_size(desc.get_data_type());
}

// A kernel may not read or write beyond what the signature says a tensor has.
void require_within(const std::vector<Spec>& specs, int index, const MemoryDesc& desc, size_t offset) {
  const auto i = static_cast<size_t>(index);
  if (i >= specs.size() || offset + reach(desc) > specs[i].bytes()) throw Unsupported{};
}

}  // namespace

Slot ProgramBuilder::input(int index, const MemoryDesc& desc, size_t offset) {
  require_within(signature_.inputs, index, desc, offset);
  slots_.push_back({Kind::input, index, desc, offset});
  return static_cast<Slot>(slots_.size()) - 1;
}

Slot ProgramBuilder::output(int index, const MemoryDesc& desc, size_t offset) {
  require_within(signature_.outputs, index, desc, offset);
  slots_.push_back({Kind::output, index, desc, offset});
  return static_cast<Slot>(slots_.size()) - 1;
}

Slot ProgramBuilder::scratch(const MemoryDesc& desc) {
  slots_.push_back({Kind::scratch, 0, desc});
  return static_cast<Slot>(slots_.size()) - 1;
}

Slot ProgramBuilder::part(Slot whole, const MemoryDesc& desc, size_t first) {
  const SlotInfo info = slots_[static_cast<size_t>(whole)];
  if (info.whole >= 0 || first + reach(desc) > info.desc.get_size()) throw Unsupported{};
  slots_.push_back({info.kind, info.index, desc, info.kind == Kind::scratch ? first : info.offset + first, whole});
  return static_cast<Slot>(slots_.size()) - 1;
}

// Memory lives as long as parts of it do.
std::vector<Slot> ProgramBuilder::with_wholes(std::vector<Slot> slots) const {
  for (size_t i = 0; i < slots.size(); ++i)
    if (const Slot whole = slots_[static_cast<size_t>(slots[i])].whole; whole >= 0) slots.push_back(whole);
  return slots;
}

void ProgramBuilder::append(std::vector<Member> members, OutputMask mask) {
  std::vector<Slot> touched;
  for (const Member& member : members)
    for (const auto& argument : member.arguments) touched.push_back(argument.second);
  steps_.push_back({std::move(members), nullptr, with_wholes(std::move(touched)), mask});
}

void ProgramBuilder::host(HostStep body, std::vector<Slot> slots, OutputMask mask) {
  steps_.push_back({{}, std::move(body), with_wholes(std::move(slots)), mask});
}

Slot ProgramBuilder::as(Slot from, const MemoryDesc& want, OutputMask mask) {
  const MemoryDesc have = slots_[static_cast<size_t>(from)].desc;
  if (have == want) return from;
  for (const Reordered& known : reordered_) {
    if (known.from != from || slots_[static_cast<size_t>(known.to)].desc != want) continue;
    steps_[known.step].mask |= mask;
    return known.to;
  }
  const Slot to = scratch(want);
  step(dnnl::reorder::primitive_desc(describing_engine(), have, cpu_engine(), want, attributes()),
       {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, mask);
  reordered_.push_back({from, to, steps_.size() - 1});
  return to;
}

Slot ProgramBuilder::target(Slot output, const MemoryDesc& have) {
  return slots_[static_cast<size_t>(output)].desc == have ? output : scratch(have);
}

void ProgramBuilder::deliver(Slot from, Slot output, OutputMask mask) {
  if (from == output) return;
  const MemoryDesc have = slots_[static_cast<size_t>(from)].desc, want = slots_[static_cast<size_t>(output)].desc;
  step(dnnl::reorder::primitive_desc(describing_engine(), have, cpu_engine(), want, attributes()),
       {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, output}}, mask);
}

// First fit by lifetime: scratch that no step needs at the same time shares memory.
size_t ProgramBuilder::place_scratch() {
  struct Interval {
    size_t first, last;
  };
  std::vector<Interval> lives(slots_.size(), {steps_.size(), 0});
  for (size_t s = 0; s < steps_.size(); ++s) {
    for (Slot slot : steps_[s].touched) {
      Interval& life = lives[static_cast<size_t>(slot)];
      life = {std::min(life.first, s), std::max(life.last, s)};
    }
  }
  std::vector<size_t> order;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].kind == Kind::scratch && slots_[i].whole < 0) order.push_back(i);
  }
  auto bytes = [&](size_t i) { return aligned(slots_[i].desc.get_size()); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes(a) > bytes(b); });
  size_t total = 0;
  std::vector<size_t> placed;
  for (size_t i : order) {
    std::vector<size_t> rivals;
    for (size_t j : placed) {
      if (lives[i].first <= lives[j].last && lives[j].first <= lives[i].last) rivals.push_back(j);
    }
    std::sort(rivals.begin(), rivals.end(), [&](size_t a, size_t b) { return slots_[a].offset < slots_[b].offset; });
    size_t offset = 0;
    for (size_t j : rivals) {
      if (offset + bytes(i) <= slots_[j].offset) break;
      offset = std::max(offset, slots_[j].offset + bytes(j));
    }
    slots_[i].offset = offset;
    total = std::max(total, offset + bytes(i));
    placed.push_back(i);
  }
  for (SlotInfo& slot : slots_)
    if (slot.kind == Kind::scratch && slot.whole >= 0) slot.offset += slots_[static_cast<size_t>(slot.whole)].offset;
  return total;
}

PlanPtr ProgramBuilder::build() {
  const size_t scratch = place_scratch();
  return std::make_unique<PrimitiveProgram>(std::move(*this), scratch);
}

dnnl::primitive_attr ProgramBuilder::attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

}  // namespace mx::cpu
