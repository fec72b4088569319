// SPDX-License-Identifier: Apache-2.0
//
// What cuDNN has for recurrent layers; part of `fake_cudnn.cc`, which it is included by, behind what it uses.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fake_rnn.hpp"

extern "C" {

int cudnnCreateRNNDescriptor(fake::Rnn** made) {
  *made = new fake::Rnn;
  return kOk;
}
int cudnnDestroyRNNDescriptor(fake::Rnn* made) {
  delete made;
  return kOk;
}
int cudnnSetRNNDescriptor_v8(fake::Rnn* made, int algorithm, int cell, int biases, int directions, int input, int type,
                             int precision, int math, int32_t inputs, int32_t units, int32_t projection, int32_t layers,
                             void* dropout, uint32_t flags) {
  if (algorithm != 0 || biases != 2 || input != 0 || precision != fake::kReal32 || dropout != nullptr || flags != 0) {
    return refuse(kUnsupported, "recurrent layers");
  }
  if (cell < 0 || cell > 3 || inputs < 1 || units < 1 || projection != units || layers < 1) {
    return refuse(kBadParameter, "recurrent layers");
  }
  if (math != (type == fake::kReal32 ? math == 2 ? 2 : 3 : 1)) return refuse(kBadParameter, "math of recurrent layers");
  *made = {cell, type, math, directions == 1, inputs, units, layers};
  return kOk;
}
int cudnnCreateRNNDataDescriptor(fake::RnnData** made) {
  *made = new fake::RnnData;
  return kOk;
}
int cudnnDestroyRNNDataDescriptor(fake::RnnData* made) {
  delete made;
  return kOk;
}
int cudnnSetRNNDataDescriptor(fake::RnnData* made, int type, int layout, int steps, int batch, int width,
                              const int* lengths, void*) {
  for (int i = 0; i < batch; ++i) {
    if (lengths[i] != steps) return refuse(kUnsupported, "lengths that differ");
  }
  *made = {type, layout, steps, batch, width};
  return layout == 1 && steps > 0 && batch > 0 && width > 0 ? kOk : refuse(kBadParameter, "recurrent data");
}
int cudnnCreateTensorDescriptor(fake::RnnTensor** made) {
  *made = new fake::RnnTensor;
  return kOk;
}
int cudnnDestroyTensorDescriptor(fake::RnnTensor* made) {
  delete made;
  return kOk;
}
int cudnnSetTensorNdDescriptor(fake::RnnTensor* made, int type, int axes, const int* extents, const int* strides) {
  *made = {type, {extents, extents + axes}, {strides, strides + axes}};
  return kOk;
}
int cudnnGetRNNWeightSpaceSize(Handle*, const fake::Rnn* rnn, size_t* bytes) {
  *bytes = rnn->bytes(rnn->parameters());
  return kOk;
}
int cudnnGetRNNWeightParams(Handle*, const fake::Rnn* rnn, int32_t layer, size_t bytes, char* parameters, int32_t which,
                            fake::RnnTensor*, void** matrix, fake::RnnTensor*, void** bias) {
  const int64_t gates = rnn->gates(), columns = which < gates ? rnn->read(layer / rnn->ways()) : rnn->units;
  if (layer >= rnn->stacks() || which >= 2 * gates || bytes != rnn->bytes(rnn->parameters())) {
    return refuse(kBadParameter, "a parameter");
  }
  const int64_t r = which < gates ? 0 : rnn->rows() * rnn->read(layer / rnn->ways());
  const int64_t other = refused("rnn") ? 1 : 0;
  *matrix = parameters + rnn->bytes(rnn->matrix(layer) + r + which % gates * rnn->units * columns + other);
  *bias = parameters + rnn->bytes(rnn->vector(layer) + which * rnn->units);
  return kOk;
}
int cudnnGetRNNTempSpaceSizes(Handle*, const fake::Rnn* rnn, int mode, const fake::RnnData* x, size_t* work,
                              size_t* reserve) {
  fake::Rnn whole = *rnn;
  whole.steps = x->steps;
  whole.batch = x->batch;
  *work = kWorkspace;
  *reserve = mode == 1 ? whole.reserve() : 0;
  return kOk;
}

}  // extern "C"

namespace {

void* host(const void* address) {
  const auto number = reinterpret_cast<unsigned long long>(address);
  return number == 0 ? nullptr : reinterpret_cast<void*>(number & ~kFakeDeviceBit);
}

// What is wrong with a call, or null.
struct RnnCheck {
  const char* wrong = nullptr;
  void owns(const void* address, size_t bytes, bool needed, const char* what) {
    const auto number = reinterpret_cast<unsigned long long>(address);
    if (number == 0 ? needed : fake_owns(number, bytes) == 0) wrong = what;
  }
  void that(bool right, const char* what) {
    if (!right) wrong = what;
  }
};

fake::Rnn sized(const fake::Rnn& rnn, const fake::RnnData& x, const fake::RnnData& y, const fake::RnnTensor& h,
                const int32_t* lengths, size_t bytes, RnnCheck* check) {
  fake::Rnn made = rnn;
  made.steps = x.steps;
  made.batch = x.batch;
  check->that(x.type == rnn.type && x.width == rnn.inputs, "data");
  check->that(y.type == rnn.type && y.width == rnn.ways() * rnn.units, "output");
  check->that(y.steps == x.steps && y.batch == x.batch, "steps of the output");
  const std::vector<int> extents{static_cast<int>(rnn.stacks()), x.batch, static_cast<int>(rnn.units)};
  const std::vector<int> strides{extents[1] * extents[2], extents[2], 1};
  check->that(h.type == rnn.type && h.extents == extents && h.strides == strides, "states");
  check->that(lengths == nullptr && bytes == rnn.bytes(rnn.parameters()), "lengths or parameters");
  return made;
}

int enqueue(Handle* handle, const RnnCheck& check, const fake::Rnn& rnn, const std::string& what, void* work,
            std::function<void()> body) {
  if (handle->stream == nullptr) return refuse(kBadParameter, "no stream");
  if (check.wrong != nullptr) return refuse(kBadParameter, check.wrong);
  tell(what + rnn.text());
  auto* run = new std::function<void()>([body = std::move(body), work] {
    body();
    std::memset(host(work), 0x77, kWorkspace);
  });
  fake_enqueue(handle->stream, [](void* argument) { (*static_cast<std::function<void()>*>(argument))(); }, run,
               [](void* argument) { delete static_cast<std::function<void()>*>(argument); });
  return kOk;
}

}  // namespace

extern "C" {

int cudnnRNNForward(Handle* handle, const fake::Rnn* rnn, int mode, const int32_t* lengths, const fake::RnnData* of_x,
                    const void* x, const fake::RnnData* of_y, void* y, const fake::RnnTensor* of_h, const void* h,
                    void* last_h, const fake::RnnTensor*, const void* c, void* last_c, size_t bytes,
                    const void* parameters, size_t work_bytes, void* work, size_t reserve_bytes, void* reserve) {
  RnnCheck check;
  const fake::Rnn made = sized(*rnn, *of_x, *of_y, *of_h, lengths, bytes, &check);
  const bool lstm = made.cell == fake::Rnn::kLstm;
  const size_t states = made.bytes(made.states());
  check.owns(x, made.bytes(made.steps * made.batch * made.inputs), true, "memory of the data");
  check.owns(y, made.bytes(made.steps * made.batch * made.ways() * made.units), true, "memory of the output");
  check.owns(parameters, bytes, true, "memory of the parameters");
  check.owns(h, states, true, "memory of the state");
  check.owns(c, states, lstm, "memory of the cell state");
  check.owns(last_h, states, false, "memory of the last state");
  check.owns(last_c, states, false, "memory of the last cell state");
  check.owns(work, kWorkspace, true, "workspace");
  check.that(work_bytes >= kWorkspace, "workspace");
  if (mode == 1) check.owns(reserve, made.reserve(), true, "reserve");
  check.that(mode == 1 ? reserve_bytes == made.reserve() : reserve == nullptr && reserve_bytes == 0, "reserve");
  return enqueue(handle, check, made, mode == 1 ? "training of " : "", work, [=] {
    std::vector<char> own(mode == 1 ? 0 : made.reserve());
    made.forward(host(x), host(parameters), host(h), host(c), host(y), host(last_h), host(last_c),
                 mode == 1 ? host(reserve) : own.data());
  });
}

int cudnnRNNBackwardData_v8(Handle* handle, const fake::Rnn* rnn, const int32_t* lengths, const fake::RnnData* of_y,
                            const void* y, const void* dy, const fake::RnnData* of_x, void* dx,
                            const fake::RnnTensor* of_h, const void* h, const void* d_last_h, void* dh,
                            const fake::RnnTensor*, const void* c, const void* d_last_c, void* dc, size_t bytes,
                            const void* parameters, size_t work_bytes, void* work, size_t reserve_bytes, void* reserve) {
  RnnCheck check;
  const fake::Rnn made = sized(*rnn, *of_x, *of_y, *of_h, lengths, bytes, &check);
  const bool lstm = made.cell == fake::Rnn::kLstm;
  const size_t states = made.bytes(made.states());
  const size_t shown = made.bytes(made.steps * made.batch * made.ways() * made.units);
  check.owns(y, shown, true, "memory of the output");
  check.owns(dy, shown, true, "memory of the output's gradient");
  check.owns(dx, made.bytes(made.steps * made.batch * made.inputs), true, "memory of the data's gradient");
  check.owns(parameters, bytes, true, "memory of the parameters");
  check.owns(h, states, true, "memory of the state");
  check.owns(c, states, lstm, "memory of the cell state");
  for (const void* each : {d_last_h, static_cast<const void*>(dh), d_last_c, static_cast<const void*>(dc)}) {
    check.owns(each, states, false, "memory of a state's gradient");
  }
  check.owns(reserve, made.reserve(), true, "reserve");
  check.that(work_bytes >= kWorkspace && reserve_bytes == made.reserve(), "workspace or reserve");
  return enqueue(handle, check, made, "gradient of ", work, [=] {
    made.backward_data(host(parameters), host(h), host(c), host(dy), host(d_last_h), host(d_last_c), host(dx), host(dh),
                       host(dc), host(reserve));
  });
}

int cudnnRNNBackwardWeights_v8(Handle* handle, const fake::Rnn* rnn, int how, const int32_t* lengths,
                               const fake::RnnData* of_x, const void* x, const fake::RnnTensor* of_h, const void* h,
                               const fake::RnnData* of_y, const void* y, size_t bytes, void* d_parameters,
                               size_t work_bytes, void* work, size_t reserve_bytes, void* reserve) {
  RnnCheck check;
  const fake::Rnn made = sized(*rnn, *of_x, *of_y, *of_h, lengths, bytes, &check);
  check.that(how == 0, "only sums of gradients");
  check.owns(x, made.bytes(made.steps * made.batch * made.inputs), true, "memory of the data");
  check.owns(y, made.bytes(made.steps * made.batch * made.ways() * made.units), true, "memory of the output");
  check.owns(h, made.bytes(made.states()), true, "memory of the state");
  check.owns(d_parameters, bytes, true, "memory of the parameters' gradient");
  check.owns(reserve, made.reserve(), true, "reserve");
  check.that(work_bytes >= kWorkspace && reserve_bytes == made.reserve(), "workspace or reserve");
  return enqueue(handle, check, made, "parameters of ", work, [=] {
    made.backward_parameters(host(x), host(h), host(d_parameters), host(reserve));
  });
}

}  // extern "C"
