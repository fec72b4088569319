// SPDX-License-Identifier: Apache-2.0
//
// Which attributes a descriptor of cuDNN has, of which type, and how many values: those that version 9.19 takes, which
// `tests/cudnn/attributes.py` asks.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <utility>

namespace fake {

// cudnnBackendAttributeType_t
enum : int {
  kHandleType = 0,
  kDataTypeType = 1,
  kBoolType = 2,
  kInt64Type = 3,
  kFloatType = 4,
  kPointerType = 6,
  kConvolutionModeType = 7,
  kHeuristicsModeType = 8,
  kNumericalNoteType = 11,
  kPointwiseModeType = 14,
  kDescriptorType = 15,
  kReductionType = 18,
  kCharType = 24,
  kNormModeType = 27,
  kNormPhaseType = 28,
};

// `of`: the kind of a descriptor that is a value; -1: an operation.
struct Attribute {
  int type;
  int64_t most;
  int of;
};

// By kind of descriptor and number of the attribute.
inline const std::map<std::pair<int, int>, Attribute>& attributes() {
  static const auto made = [] {
    constexpr int64_t kAxes = 8, kMany = 64, kText = 1 << 16;
    std::map<std::pair<int, int>, Attribute> all;
    const auto have = [&](int kind, std::initializer_list<int> numbers, int type, int64_t most = 1, int of = 0) {
      for (const int number : numbers) all[{kind, number}] = {type, most, of};
    };
    const auto tensors = [&](int kind, std::initializer_list<int> numbers) {
      have(kind, numbers, kDescriptorType, 1, 17);
    };
    have(0, {0}, kPointwiseModeType);
    have(0, {1}, kDataTypeType);
    have(1, {100}, kDataTypeType);
    have(1, {101}, kConvolutionModeType);
    have(1, {102, 103, 104, 105}, kInt64Type, kAxes);
    have(1, {106}, kInt64Type);
    have(4, {200}, kHeuristicsModeType);
    have(4, {201}, kDescriptorType, 1, 15);
    have(4, {204}, kDescriptorType, 1, 38);
    have(5, {400}, kHandleType);
    have(5, {401}, kDescriptorType, 1, 3);
    have(5, {407}, kDescriptorType, 1, 38);
    for (const auto& [kind, first] : {std::pair{10, 700}, std::pair{11, 712}, std::pair{12, 706}}) {
      have(kind, {first, first + 1}, kFloatType);
      have(kind, {first + 2}, kDescriptorType, 1, 1);
      tensors(kind, {first + 3, first + 4, first + 5});
    }
    have(13, {750}, kDescriptorType, 1, 0);
    tensors(13, {751, 752, 753});
    have(15, {800}, kHandleType);
    have(15, {801}, kDescriptorType, kMany, -1);
    have(16, {1000}, kInt64Type, kMany);
    have(16, {1001}, kPointerType, kMany);
    have(16, {1003}, kPointerType);
    have(17, {900, 906}, kInt64Type);
    have(17, {901}, kDataTypeType);
    have(17, {902, 903}, kInt64Type, kAxes);
    have(17, {907, 908}, kBoolType);
    have(18, {1500}, kDataTypeType);
    have(19, {1523}, kDescriptorType, 1, 18);
    tensors(19, {1520, 1521, 1522});
    have(21, {1600}, kReductionType);
    have(21, {1601}, kDataTypeType);
    have(22, {1612}, kDescriptorType, 1, 21);
    tensors(22, {1610, 1611});
    have(29, {2000}, kNormModeType);
    have(29, {2001}, kNormPhaseType);
    tensors(29, {2002, 2003, 2004, 2005, 2006, 2007, 2013});
    have(30, {2100}, kNormModeType);
    tensors(30, {2101, 2102, 2103, 2104, 2105, 2107, 2108, 2109});
    tensors(31, {2200, 2201});
    have(38, {2702}, kCharType, kText);
    tensors(41, {2800, 2801, 2802, 2803, 2804, 2805});
    return all;
  }();
  return made;
}

}  // namespace fake
