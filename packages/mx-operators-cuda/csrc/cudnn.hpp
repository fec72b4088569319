// SPDX-License-Identifier: Apache-2.0
//
// cuDNN's graph interface, and what it has for recurrent layers, declared by us and found at run time like the driver:
// functions, numbers, a descriptor that frees itself, and a handle per GPU.
//
// Source: cuDNN backend API reference, 9.x.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "gpu.hpp"

namespace mx::cuda::dnn {

using Status = int;  // cudnnStatus_t
using Handle = struct HandleTag*;
using Pointer = struct DescriptorTag*;  // cudnnBackendDescriptor_t

enum : Status { kOk = 0 };
inline bool unsupported(Status status) { return status >= 3000 && status < 4000; }
inline bool exhausted(Status status) { return status == 4003 || status == 4004; }  // memory of the host, or the GPU

enum Kind : int {  // cudnnBackendDescriptorType_t
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kHeuristics = 4,
  kPlan = 5,
  kForwardOperation = 10,
  kWeightsOperation = 11,
  kDataOperation = 12,
  kPointwiseOperation = 13,
  kGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kMatmul = 18,
  kMatmulOperation = 19,
  kReduction = 21,
  kReductionOperation = 22,
  kNormOperation = 29,
  kNormBackOperation = 30,
  kReshapeOperation = 31,
  kPointwise = 0,
  kProperties = 38,
  kAttentionOperation = 41,  // since 9.13.1
};

enum Attribute : int {  // cudnnBackendAttributeName_t
  kPointwiseMode = 0,
  kPointwisePrecision = 1,
  kConvolutionPrecision = 100,
  kConvolutionMode = 101,
  kConvolutionDilations = 102,
  kConvolutionStrides = 103,
  kConvolutionPostPaddings = 104,
  kConvolutionPrePaddings = 105,
  kConvolutionAxes = 106,
  kHeuristicsMode = 200,
  kHeuristicsGraph = 201,
  kHeuristicsResults = 202,
  kHeuristicsProperties = 204,
  kConfigEngine = 300,
  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kPlanProperties = 407,
  kForwardAlpha = 700,
  kForwardBeta = 701,
  kForwardConvolution = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kDataAlpha = 706,
  kDataBeta = 707,
  kDataConvolution = 708,
  kDataW = 709,
  kDataX = 710,
  kDataY = 711,
  kWeightsAlpha = 712,
  kWeightsBeta = 713,
  kWeightsConvolution = 714,
  kWeightsW = 715,
  kWeightsX = 716,
  kWeightsY = 717,
  kPointwiseDescriptor = 750,
  kPointwiseX = 751,
  kPointwiseB = 752,
  kPointwiseY = 753,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorExtents = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorVirtual = 907,
  kTensorByValue = 908,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineIndex = 1301,
  kEngineNumericalNotes = 1303,
  kMatmulPrecision = 1500,
  kMatmulA = 1520,
  kMatmulB = 1521,
  kMatmulC = 1522,
  kMatmulDescriptor = 1523,
  kReductionOperator = 1600,
  kReductionPrecision = 1601,
  kReductionX = 1610,
  kReductionY = 1611,
  kReductionDescriptor = 1612,
  kNormMode = 2000,
  kNormPhase = 2001,
  kNormX = 2002,
  kNormMean = 2003,
  kNormInverse = 2004,
  kNormScale = 2005,
  kNormBias = 2006,
  kNormEpsilon = 2007,
  kNormY = 2013,
  kNormBackMode = 2100,
  kNormBackX = 2101,
  kNormBackMean = 2102,
  kNormBackInverse = 2103,
  kNormBackDy = 2104,
  kNormBackScale = 2105,
  kNormBackDscale = 2107,
  kNormBackDbias = 2108,
  kNormBackDx = 2109,
  kReshapeX = 2200,
  kReshapeY = 2201,
  kPropertiesText = 2702,
  kAttentionQuery = 2800,
  kAttentionKey = 2801,
  kAttentionValue = 2802,
  kAttentionOutput = 2803,
  kAttentionStatistics = 2804,
  kAttentionScale = 2805,
};

enum Type : int {  // cudnnBackendAttributeType_t
  kHandleType = 0,
  kDataTypeType = 1,
  kBool = 2,
  kInt64 = 3,
  kFloat = 4,
  kDouble = 5,
  kVoidPointer = 6,
  kConvolutionModeType = 7,
  kHeuristicsModeType = 8,
  kNumericalNoteType = 11,
  kPointwiseModeType = 14,
  kDescriptor = 15,
  kReductionOperatorType = 18,
  kChar = 24,
  kNormModeType = 27,
  kNormPhaseType = 28,
};

enum : int { kFloat32 = 0, kFloat64 = 1, kFloat16 = 2, kBFloat16 = 9 };  // cudnnDataType_t
enum : int { kCrossCorrelation = 1 };                                    // cudnnConvolutionMode_t
enum : int { kTraining = 1 };                                            // cudnnBackendNormFwdPhase_t
enum : int { kAdd = 0, kMultiply = 1, kSubtract = 9, kExp = 13, kRelu = 100 };  // cudnnPointwiseMode_t
enum : int { kSum = 0 };                                                 // cudnnReduceTensorOp_t
enum : int { kModeFallback = 2, kModeA = 3 };                            // cudnnBackendHeurMode_t
enum : int {                                                             // cudnnBackendNumericalNote_t
  kTensorCore = 0,
  kDownConverts = 1,
  kReducedReduction = 2,
  kNondeterministic = 4,
};

// Of recurrent layers, which graphs do not have.  Source: cuDNN's reference of cudnn_adv, 9.x.
enum : int { kRnnInference = 0, kRnnTraining = 1 };                       // cudnnForwardMode_t
enum : int { kStandardAlgorithm = 0 };                                    // cudnnRNNAlgo_t
enum : int { kTwoBiases = 2 };                                            // cudnnRNNBiasMode_t
enum : int { kLinearInput = 0 };                                          // cudnnRNNInputMode_t
enum : int { kStepsFirst = 1 };  // cudnnRNNDataLayout_t: sequences of one length, packed
enum : int { kTensorMath = 1, kConvertingMath = 2, kPlainMath = 3 };      // cudnnMathType_t
enum : int { kAddGradient = 0 };                                          // cudnnWgradMode_t
enum : uint32_t { kUnpadded = 0 };

struct RnnTag;      // of a cudnnRNNDescriptor_t
struct RnnDataTag;  // of a cudnnRNNDataDescriptor_t
struct TensorTag;   // of a cudnnTensorDescriptor_t

struct RnnFunctions {
  Status (*make)(RnnTag** made);
  Status (*destroy)(RnnTag* made);
  Status (*set)(RnnTag* made, int algorithm, int cell, int biases, int directions, int input, int type, int precision,
                int math, int32_t inputs, int32_t units, int32_t projection, int32_t layers, void* dropout,
                uint32_t flags);
  Status (*make_data)(RnnDataTag** made);
  Status (*destroy_data)(RnnDataTag* made);
  Status (*set_data)(RnnDataTag* made, int type, int layout, int steps, int batch, int width, const int* lengths,
                     void* fill);
  Status (*make_tensor)(TensorTag** made);
  Status (*destroy_tensor)(TensorTag* made);
  Status (*set_tensor)(TensorTag* made, int type, int axes, const int* extents, const int* strides);
  Status (*parameter_bytes)(Handle handle, RnnTag* rnn, size_t* bytes);
  Status (*parameter)(Handle handle, RnnTag* rnn, int32_t layer, size_t bytes, const void* parameters, int32_t which,
                      TensorTag* of_matrix, void** matrix, TensorTag* of_bias, void** bias);
  Status (*space)(Handle handle, RnnTag* rnn, int mode, RnnDataTag* x, size_t* work, size_t* reserve);
  Status (*forward)(Handle handle, RnnTag* rnn, int mode, const int32_t* lengths, RnnDataTag* of_x, const void* x,
                    RnnDataTag* of_y, void* y, TensorTag* of_h, const void* h, void* last_h, TensorTag* of_c,
                    const void* c, void* last_c, size_t bytes, const void* parameters, size_t work_bytes, void* work,
                    size_t reserve_bytes, void* reserve);
  Status (*backward_data)(Handle handle, RnnTag* rnn, const int32_t* lengths, RnnDataTag* of_y, const void* y,
                          const void* dy, RnnDataTag* of_x, void* dx, TensorTag* of_h, const void* h,
                          const void* d_last_h, void* dh, TensorTag* of_c, const void* c, const void* d_last_c,
                          void* dc, size_t bytes, const void* parameters, size_t work_bytes, void* work,
                          size_t reserve_bytes, void* reserve);
  Status (*backward_parameters)(Handle handle, RnnTag* rnn, int how, const int32_t* lengths, RnnDataTag* of_x,
                                const void* x, TensorTag* of_h, const void* h, RnnDataTag* of_y, const void* y,
                                size_t bytes, void* d_parameters, size_t work_bytes, void* work, size_t reserve_bytes,
                                void* reserve);
};

struct Functions {
  RnnFunctions rnn;
  size_t (*version)();
  const char* (*status_text)(Status);
  void (*last_error)(char* text, size_t bytes);
  Status (*create)(Handle* handle);
  Status (*set_stream)(Handle handle, Stream stream);
  Status (*make)(int kind, Pointer* made);
  Status (*destroy)(Pointer descriptor);
  Status (*finalize)(Pointer descriptor);
  Status (*set)(Pointer descriptor, int attribute, int type, int64_t count, const void* values);
  Status (*get)(Pointer descriptor, int attribute, int type, int64_t room, int64_t* count, void* values);
  Status (*execute)(Handle handle, Pointer plan, Pointer pack);
};

// Loads cuDNN 9 from a file, once per process.  Returns its version, 91900 for 9.19.  Throws mx::Error.
size_t load(const std::string& path);
// Throws mx::Error when cuDNN is not loaded.
const Functions& functions();
// "CUDNN_STATUS_BAD_PARAM (2000): ...".
std::string describe(Status status);
// Throws mx::Error "[where] what: ..." unless the status is success.
void check(Status status, const std::string& where, const char* what);

// Owns a backend descriptor.  Threads: one at a time until it is finalized, then any.
class Descriptor {
 public:
  Descriptor(Kind kind, const std::string& where);
  Descriptor(Descriptor&& other) noexcept : where_(std::move(other.where_)), pointer_(other.pointer_) {
    other.pointer_ = nullptr;
  }
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();

  Pointer get() const noexcept { return pointer_; }
  Descriptor& set(Attribute attribute, Type type, int64_t count, const void* values);
  Descriptor& set(Attribute attribute, const std::vector<int64_t>& values);
  Descriptor& set(Attribute attribute, const Descriptor& other);
  Descriptor& set_number(Attribute attribute, int64_t value) { return set(attribute, kInt64, 1, &value); }
  Descriptor& set_choice(Attribute attribute, Type type, int value) { return set(attribute, type, 1, &value); }
  Descriptor& finalize();
  // The status instead of an exception: what cuDNN does not support is no error.
  Status try_finalize() { return functions().finalize(pointer_); }

  int64_t number(Attribute attribute) const;
  std::vector<int> choices(Attribute attribute, Type type) const;
  int64_t count(Attribute attribute, Type type) const;

 private:
  std::string where_;
  Pointer pointer_ = nullptr;
};

// The handle of a GPU, whose context is current.  One thread's at a time: who uses it holds its mutex.
struct Bound {
  std::mutex mutex;
  Handle handle = nullptr;
  Stream stream = nullptr;

  // Makes the handle at the first call.  Throws mx::Error.
  Handle made(const std::string& where);
  // The handle, which enqueues on a stream.
  Handle on(Stream wanted, const std::string& where);
};
Bound& bound(const Gpu& gpu);

}  // namespace mx::cuda::dnn
