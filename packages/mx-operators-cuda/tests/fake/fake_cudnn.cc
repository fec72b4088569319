// SPDX-License-Identifier: Apache-2.0
//
// cuDNN for the fake driver: the part of its graph interface that is used here, and of that for recurrent layers.  A
// descriptor is a table of attributes, which are those of `fake_attributes.hpp`; what they may be is checked when it is
// finalized, and the tensors of a run when it is executed.  Runs are computed by definition (`fake_convolution.hpp`,
// `fake_norm.hpp`, `fake_attention.hpp`, `fake_graph.hpp`, `fake_rnn.hpp`), on the fake streams, and told to the file
// FAKE_CUDNN_LOG.
//
// It names three engines: number 0 adds up in no fixed order, number 1 multiplies float32 in tensor cores, number 2
// does neither.  FAKE_CUDNN_REFUSES lists what no engine has: "bias", "add", "y", "x", "w" (results), "norm", "epilogue",
// "attention", "graph" (of products), "memory" (for any plan), "rnn" (whose parameters then lie in another order), "all".
// FAKE_CUDNN_VERSION is its version, 91900.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "fake_attention.hpp"
#include "fake_attributes.hpp"
#include "fake_convolution.hpp"
#include "fake_cuda.hpp"
#include "fake_graph.hpp"
#include "fake_norm.hpp"
#include "fake_rnn.hpp"

namespace {

using fake::Attention;
using fake::Convolution;
using fake::Norm;
using fake::Operation;
using fake::OperationGraph;
using fake::Tensor;

enum : int { kOk = 0, kBadParameter = 2000, kNotFinalized = 2004, kBadType = 2010, kUnsupported = 3000, kNoMemory = 4004 };
enum : int {
  kEngine = 2,
  kConfig = 3,
  kHeuristics = 4,
  kPlan = 5,
  kForward = 10,
  kWeights = 11,
  kData = 12,
  kPointwiseOperation = 13,
  kGraph = 15,
  kPack = 16,
  kTensor = 17,
  kMatmul = 18,
  kMatmulOperation = 19,
  kReduction = 21,
  kReductionOperation = 22,
  kNorm = 29,
  kNormGradient = 30,
  kReshape = 31,
  kProperties = 38,
  kAttention = 41,
};
constexpr size_t kWorkspace = 1000;

thread_local std::string message;

int refuse(int status, const std::string& why) {
  message = why;
  return status;
}

size_t width(int type) {
  switch (type) {
    case fake::kHandleType: case fake::kInt64Type: case fake::kPointerType: case fake::kDescriptorType: return 8;
    case fake::kBoolType: case fake::kCharType: return 1;
    default: return 4;
  }
}

struct Values {
  int type = -1;
  int64_t count = 0;
  std::string bytes;
};

struct Descriptor {
  int kind;
  bool finalized = false;
  std::map<int, Values> attributes;
  Convolution made;  // of operations, graphs and what comes from them
  int engine = -1;
  // in place of a convolution
  Norm norm{};
  Attention attention{};
  OperationGraph graph{};  // of an operation: it alone

  void take(const Descriptor& other) {
    made = other.made;
    norm = other.norm;
    attention = other.attention;
    graph = other.graph;
  }

  bool has(int attribute) const { return attributes.count(attribute) != 0; }
  template <class T> T one(int attribute, T absent = T()) const {
    const auto found = attributes.find(attribute);
    if (found == attributes.end()) return absent;
    T value;
    std::memcpy(&value, found->second.bytes.data(), sizeof value);
    return value;
  }
  template <class T> std::vector<T> all(int attribute) const {
    const auto found = attributes.find(attribute);
    if (found == attributes.end()) return {};
    std::vector<T> values(static_cast<size_t>(found->second.count));
    std::memcpy(values.data(), found->second.bytes.data(), values.size() * sizeof(T));
    return values;
  }
  const Descriptor& other(int attribute) const {
    static const Descriptor none{-1, false, {}, {}, -1};
    const auto* found = one<const Descriptor*>(attribute);
    return found == nullptr ? none : *found;
  }
};

bool refused(const char* what) {
  const char* given = std::getenv("FAKE_CUDNN_REFUSES");
  const std::string list = std::string(",") + (given == nullptr ? "" : given) + ",";
  return list.find(std::string(",") + what + ",") != std::string::npos;
}

Tensor tensor_of(const Descriptor& d) {
  return {d.one<int64_t>(906), d.one<int>(901, -1), d.all<int64_t>(902), d.all<int64_t>(903),
          d.one<bool>(907), d.one<int64_t>(900)};
}

int finalize_tensor(const Descriptor& d) {
  const Tensor t = tensor_of(d);
  if (t.extents.size() < 3 || t.extents.size() != t.strides.size()) return refuse(kBadParameter, "extents and strides");
  if (t.type != fake::kReal32 && t.type != fake::kReal16 && t.type != fake::kBrain16) {
    return refuse(kUnsupported, "type");
  }
  for (size_t i = 0; i < t.extents.size(); ++i) {
    if (t.extents[i] <= 0 || t.strides[i] <= 0) return refuse(kBadParameter, "an extent or a stride");
  }
  return t.alignment > 0 ? kOk : refuse(kBadParameter, "no alignment");
}

int finalize_convolution(Descriptor& d) {
  const Descriptor& how = d.other(d.kind == kForward ? 702 : d.kind == kData ? 708 : 714);
  if (!how.finalized) return refuse(kNotFinalized, "the convolution");
  const int first = d.kind == kForward ? 700 : d.kind == kData ? 706 : 712;
  Convolution& made = d.made;
  made.result = d.kind == kForward ? 'y' : d.kind == kData ? 'x' : 'w';
  const int attributes[3][3] = {{704, 703, 705}, {710, 709, 711}, {716, 715, 717}};  // x, w, y
  const int* names = attributes[d.kind == kForward ? 0 : d.kind == kData ? 1 : 2];
  for (int i = 0; i < 3; ++i) {
    if (!d.other(names[i]).finalized) return refuse(kNotFinalized, "a tensor");
  }
  made.x = tensor_of(d.other(names[0]));
  made.w = tensor_of(d.other(names[1]));
  made.y = tensor_of(d.other(names[2]));
  made.alpha = d.one<float>(first, -1);
  made.beta = d.one<float>(first + 1, -1);
  made.pad = how.all<int64_t>(105);
  made.stride = how.all<int64_t>(103);
  made.dilate = how.all<int64_t>(102);
  if (how.one<int>(101) != 1) return refuse(kUnsupported, "mode");
  if (how.one<int>(100, -1) != fake::kReal32) return refuse(kUnsupported, "precision");
  if (how.all<int64_t>(104) != made.pad) return refuse(kUnsupported, "paddings that differ");
  if (how.one<int64_t>(106) != static_cast<int64_t>(made.pad.size())) return refuse(kBadParameter, "spatial axes");
  return made.fits() ? kOk : refuse(kBadParameter, "extents do not fit together");
}

// Attributes of x, y, scale, bias, mean and inverse; of a gradient also of scale's and of x's.
int finalize_norm(Descriptor& d) {
  Norm& made = d.norm;
  made.gradient = d.kind == kNormGradient;
  const int forward[] = {2002, 2013, 2005, 2006, 2003, 2004}, back[] = {2101, 2104, 2105, 2108, 2102, 2103, 2107, 2109};
  Tensor* const tensors[] = {&made.x, &made.y, &made.scale, &made.bias, &made.mean, &made.inverse, &made.dscale, &made.dx};
  for (int i = 0; i < (made.gradient ? 8 : 6); ++i) {
    const Descriptor& given = d.other(made.gradient ? back[i] : forward[i]);
    if (!given.finalized) return refuse(kNotFinalized, "a tensor");
    *tensors[i] = tensor_of(given);
  }
  if (!made.gradient) {
    const Descriptor& epsilon = d.other(2007);
    if (!epsilon.finalized || !epsilon.one<bool>(908)) return refuse(kBadParameter, "epsilon");
    made.epsilon_id = tensor_of(epsilon).id;
    if (d.one<int>(2001, -1) != 1) return refuse(kUnsupported, "phase");
  }
  const int mode = d.one<int>(made.gradient ? 2100 : 2000, -1);
  if (mode != 0 && mode != 2) return refuse(kUnsupported, "mode");
  made.mode = mode;
  return made.fits() ? kOk : refuse(kBadParameter, "extents of a normalization do not fit together");
}

int finalize_attention(Descriptor& d) {
  Attention& made = d.attention;
  const int names[] = {2800, 2801, 2802, 2803};
  Tensor* const tensors[] = {&made.q, &made.k, &made.v, &made.o};
  for (int i = 0; i < 4; ++i) {
    if (!d.other(names[i]).finalized) return refuse(kNotFinalized, "a tensor");
    *tensors[i] = tensor_of(d.other(names[i]));
  }
  if (d.has(2804)) {
    if (!d.other(2804).finalized) return refuse(kNotFinalized, "a tensor");
    made.statistics = tensor_of(d.other(2804));
    made.trains = true;
  }
  const Descriptor& scale = d.other(2805);
  if (!scale.finalized || !scale.one<bool>(908)) return refuse(kBadParameter, "scale");
  made.scale_id = tensor_of(scale).id;
  made.there = true;
  return made.fits() ? kOk : refuse(kBadParameter, "extents of an attention do not fit together");
}

// An operation of a graph that begins with none of the above.
int finalize_operation(Descriptor& d) {
  Operation made;
  int a = 751, b = 752, y = 753;
  const Descriptor* how = nullptr;
  if (d.kind == kMatmulOperation) {
    made.kind = Operation::kMatmul;
    a = 1520, b = 1521, y = 1522;
    how = &d.other(1523);
    if (how->one<int>(1500, -1) != fake::kReal32) return refuse(kUnsupported, "precision");
  } else if (d.kind == kReductionOperation) {
    made.kind = Operation::kSum;
    a = 1610, b = -1, y = 1611;
    how = &d.other(1612);
    if (how->one<int>(1600, -1) != 0) return refuse(kUnsupported, "reduction");
    if (how->one<int>(1601, -1) != fake::kReal32) return refuse(kUnsupported, "precision");
  } else if (d.kind == kReshape) {
    made.kind = Operation::kReshape;
    a = 2200, b = -1, y = 2201;
  } else {
    how = &d.other(750);
    made.mode = how->one<int>(0, -1);
    if (how->one<int>(1, -1) != fake::kReal32) return refuse(kUnsupported, "precision");
  }
  if (how != nullptr && !how->finalized) return refuse(kNotFinalized, "how an operation is computed");
  made.two = d.has(b);
  if (made.kind == Operation::kMatmul && !made.two) return refuse(kBadParameter, "a product of one tensor");
  for (const auto& [attribute, tensor] : {std::pair{a, &made.a}, std::pair{b, &made.b}, std::pair{y, &made.y}}) {
    if (attribute == b && !made.two) continue;
    if (!d.other(attribute).finalized) return refuse(kNotFinalized, "a tensor");
    *tensor = tensor_of(d.other(attribute));
  }
  made.a_by_value = d.other(a).one<bool>(908);
  made.b_by_value = made.two && d.other(b).one<bool>(908);
  d.graph.operations = {made};
  return kOk;
}

int finalize_graph(Descriptor& d) {
  const auto operations = d.all<Descriptor*>(801);
  if (operations.empty()) return refuse(kBadParameter, "no operations");
  for (const Descriptor* operation : operations) {
    if (!operation->finalized) return refuse(kNotFinalized, "an operation");
  }
  d.take(*operations[0]);
  if (d.graph.there()) {
    for (size_t i = 1; i < operations.size(); ++i) {
      if (!operations[i]->graph.there()) return refuse(kUnsupported, "an operation among products");
      d.graph.operations.push_back(operations[i]->graph.operations[0]);
    }
    const char* found = d.graph.refusal();
    return found == nullptr ? kOk : refuse(kBadParameter, found);
  }
  if (operations.size() > 4) return refuse(kUnsupported, "operations");
  if (d.attention.there) return operations.size() == 1 ? kOk : refuse(kUnsupported, "operations after an attention");
  if (d.norm.mode >= 0) return operations.size() == 1 ? kOk : refuse(kUnsupported, "operations after a normalization");
  if (d.made.result == 0) return refuse(kUnsupported, "no convolution comes first");
  if (operations.size() == 1) return d.made.target().is_virtual ? refuse(kBadParameter, "nothing is written") : kOk;
  for (size_t i = 1; i < operations.size(); ++i) {
    const Descriptor& next = *operations[i];
    const int mode = next.other(750).one<int>(0, -1);
    if (next.kind != kPointwiseOperation || (mode != 0 && mode != 100)) return refuse(kUnsupported, "what follows");
    const Tensor in = tensor_of(next.other(751)), out = tensor_of(next.other(753));
    if (!in.is_virtual || in.id != d.made.target().id) return refuse(kBadParameter, "it follows another tensor");
    if (out.extents != d.made.target().extents) return refuse(kBadParameter, "extents of what follows");
    if (mode == 100) {
      d.made.relu = true;
    } else if (tensor_of(next.other(752)).extents == out.extents) {
      d.made.residual = tensor_of(next.other(752));
      d.made.added = true;
    } else {
      d.made.bias = tensor_of(next.other(752));
      d.made.biased = true;
    }
    d.made.target() = out;
  }
  return d.made.target().is_virtual ? refuse(kBadParameter, "nothing is written") : kOk;
}

bool engines_have(const Descriptor& d) {
  const Convolution& what = d.made;
  if (d.norm.mode >= 0) return !refused("all") && !refused("norm");
  if (d.attention.there) return !refused("all") && !refused("attention");
  if (d.graph.there()) return !refused("all") && !refused("graph");
  const char result[2] = {what.result, '\0'};
  return !refused("all") && !refused(result) && !(what.biased && (refused("bias") || what.result != 'y')) &&
         !(what.beta != 0 && refused("add")) && !((what.relu || what.added) && refused("epilogue"));
}

int finalize(Descriptor& d) {
  switch (d.kind) {
    case kTensor: return finalize_tensor(d);
    case kForward: case kData: case kWeights: return finalize_convolution(d);
    case kNorm: case kNormGradient: return finalize_norm(d);
    case kAttention: return finalize_attention(d);
    case kPointwiseOperation: case kMatmulOperation: case kReductionOperation: case kReshape:
      return finalize_operation(d);
    case kGraph: return finalize_graph(d);
    case kHeuristics:
      if (!d.other(201).finalized) return refuse(kNotFinalized, "the graph");
      d.take(d.other(201));
      return kOk;
    case kPlan:
      if (d.one<void*>(400) == nullptr && !d.has(407)) return refuse(kBadParameter, "neither a handle nor a GPU");
      if (refused("memory")) return refuse(kNoMemory, "no memory");
      d.take(d.other(401));
      d.engine = d.other(401).engine;
      return d.engine < 0 ? refuse(kBadParameter, "no engine") : kOk;
    case kPack:
      return d.all<int64_t>(1000).size() == d.all<void*>(1001).size() ? kOk : refuse(kBadParameter, "ids and pointers");
    case kProperties: return d.has(2702) ? kOk : refuse(kBadParameter, "no properties");
    default: return kOk;
  }
}

struct Run {
  Convolution what;
  Norm norm;
  Attention attention;
  OperationGraph graph;
  std::map<int64_t, unsigned long long> addresses;
  unsigned long long workspace;
  std::map<int64_t, float> numbers;  // of the host, by their ids

  std::set<int64_t> number_ids() const {
    if (graph.there()) return graph.numbers();
    const int64_t one = attention.there ? attention.scale_id : norm.epsilon_id;
    return one == 0 ? std::set<int64_t>{} : std::set<int64_t>{one};
  }
  float number() const { return numbers.empty() ? 0 : numbers.begin()->second; }
  std::vector<const Tensor*> tensors() const {
    if (graph.there()) return graph.tensors();
    return attention.there ? attention.tensors() : norm.mode >= 0 ? norm.tensors() : what.tensors();
  }
  std::string text() const {
    if (graph.there()) return graph.text();
    return attention.there ? attention.text() : norm.mode >= 0 ? norm.text() : what.text();
  }
};

void tell(const std::string& text) {
  const char* path = std::getenv("FAKE_CUDNN_LOG");
  if (path == nullptr) return;
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  std::ofstream(path, std::ios::app) << text << "\n";
}

}  // namespace

extern "C" {

struct Handle {
  void* stream = nullptr;
};

size_t cudnnGetVersion() {
  const char* given = std::getenv("FAKE_CUDNN_VERSION");
  return given == nullptr ? 91900 : static_cast<size_t>(std::atoi(given));
}
const char* cudnnGetErrorString(int status) {
  switch (status) {
    case kBadParameter: return "CUDNN_STATUS_BAD_PARAM";
    case kBadType: return "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE";
    case kUnsupported: return "CUDNN_STATUS_NOT_SUPPORTED";
    case kNoMemory: return "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED";
    default: return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
  }
}
void cudnnGetLastErrorString(char* text, size_t bytes) {
  std::snprintf(text, bytes, "%s", message.c_str());
  message.clear();
}
int cudnnCreate(Handle** handle) {
  *handle = new Handle;
  return kOk;
}
int cudnnSetStream(Handle* handle, void* stream) {
  handle->stream = stream;
  return kOk;
}
int cudnnBackendCreateDescriptor(int kind, Descriptor** made) {
  *made = new Descriptor{kind, false, {}, {}, -1};
  return kOk;
}
int cudnnBackendDestroyDescriptor(Descriptor* descriptor) {
  delete descriptor;
  return kOk;
}
int cudnnBackendFinalize(Descriptor* descriptor) {
  const int status = finalize(*descriptor);
  descriptor->finalized = status == kOk;
  return status;
}
int cudnnBackendSetAttribute(Descriptor* d, int attribute, int type, int64_t count, const void* values) {
  if (d->finalized) return refuse(kBadParameter, "set after it was finalized");
  const auto known = fake::attributes().find({d->kind, attribute});
  if (known == fake::attributes().end()) return refuse(kBadParameter, "no such attribute of this kind of descriptor");
  const fake::Attribute& may = known->second;
  if (type != may.type) return refuse(kBadType, "type of an attribute");
  if (count < 1 || count > may.most || values == nullptr) return refuse(kBadParameter, "number of values");
  if (d->kind == kGraph && type == fake::kHandleType && *static_cast<void* const*>(values) == nullptr) {
    return refuse(kBadParameter, "a handle that is null");
  }
  for (int64_t i = 0; type == fake::kDescriptorType && i < count; ++i) {
    const auto* given = static_cast<const Descriptor* const*>(values)[i];
    if (given == nullptr || !given->finalized) return refuse(kNotFinalized, "a descriptor as a value");
    if (may.of >= 0 && given->kind != may.of) return refuse(kBadParameter, "kind of a descriptor as a value");
  }
  d->attributes[attribute] = {type, count, std::string(static_cast<const char*>(values), width(type) * count)};
  return kOk;
}

int cudnnBackendGetAttribute(const Descriptor* d, int attribute, int type, int64_t room, int64_t* count, void* values) {
  if (d->kind == kHeuristics && attribute == 202) {
    const bool fallback = d->one<int>(200) == 2;
    *count = !engines_have(*d) ? 0 : fallback ? 1 : 3;
    for (int64_t i = 0; i < room && i < *count; ++i) {
      Descriptor* config = static_cast<Descriptor**>(values)[i];
      config->take(*d);
      config->engine = fallback ? 2 : static_cast<int>(i);
      config->finalized = true;
    }
    return kOk;
  }
  if (d->kind == kConfig && attribute == 300) {
    Descriptor* engine = *static_cast<Descriptor**>(values);
    engine->engine = d->engine;
    engine->take(*d);
    engine->finalized = true;
    *count = 1;
    return kOk;
  }
  if (d->kind == kEngine && attribute == 1301) {
    *static_cast<int64_t*>(values) = d->engine;
    *count = 1;
    return kOk;
  }
  if (d->kind == kEngine && attribute == 1303) {
    *count = d->engine == 2 ? 0 : 1;
    if (room > 0 && *count > 0) *static_cast<int*>(values) = d->engine == 0 ? 4 : 0;
    return kOk;
  }
  if (d->kind == kPlan && attribute == 402 && d->finalized && type == fake::kInt64Type) {
    *static_cast<int64_t*>(values) = kWorkspace;
    *count = 1;
    return kOk;
  }
  return refuse(kBadParameter, "there is no such attribute");
}

int cudnnBackendExecute(Handle* handle, const Descriptor* plan, const Descriptor* pack) {
  if (handle->stream == nullptr) return refuse(kBadParameter, "no stream");
  if (!plan->finalized || !pack->finalized) return refuse(kNotFinalized, "plan or pack");
  const auto ids = pack->all<int64_t>(1000);
  const auto pointers = pack->all<unsigned long long>(1001);
  auto* run = new Run{plan->made, plan->norm, plan->attention, plan->graph, {}, pack->one<unsigned long long>(1003)};
  for (size_t i = 0; i < ids.size(); ++i) run->addresses[ids[i]] = pointers[i];
  const char* wrong = fake_owns(run->workspace, kWorkspace) == 0 || run->workspace % 256 != 0 ? "workspace" : nullptr;
  for (const Tensor* t : run->tensors()) {
    const auto found = run->addresses.find(t->id);
    if (found == run->addresses.end()) {
      wrong = "a tensor has no address";
    } else if (fake_owns(found->second, t->bytes()) == 0) {
      wrong = "memory of a tensor";
    } else if (found->second % static_cast<unsigned long long>(t->alignment) != 0) {
      wrong = "alignment of a tensor";
    }
  }
  size_t given = ids.size();
  for (const int64_t id : run->number_ids()) {  // of the host, read now
    const auto found = run->addresses.find(id);
    if (found == run->addresses.end() || fake_owns(found->second, sizeof(float)) != 0) {
      wrong = "a number";
    } else {
      run->numbers[id] = *reinterpret_cast<const float*>(found->second);
      --given;
    }
  }
  if (given != run->tensors().size()) wrong = "number of tensors";
  if (wrong != nullptr) {
    delete run;
    return refuse(kBadParameter, wrong);
  }
  tell(run->text());
  const auto body = [](void* argument) {
    auto* mine = static_cast<Run*>(argument);
    std::memset(reinterpret_cast<void*>(mine->workspace & ~kFakeDeviceBit), 0x77, kWorkspace);
    const auto data = [&](int64_t id) { return reinterpret_cast<char*>(mine->addresses.at(id) & ~kFakeDeviceBit); };
    if (mine->graph.there()) {
      mine->graph.compute(data, [&](int64_t id) { return mine->numbers.at(id); });
    } else if (mine->attention.there) {
      mine->attention.compute(data, mine->number());
    } else if (mine->norm.mode >= 0) {
      mine->norm.compute(data, mine->number());
    } else {
      mine->what.compute(data);
    }
  };
  fake_enqueue(handle->stream, body, run, [](void* argument) { delete static_cast<Run*>(argument); });
  return kOk;
}

}  // extern "C"

#include "fake_rnn_calls.hpp"
