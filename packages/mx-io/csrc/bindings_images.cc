// SPDX-License-Identifier: Apache-2.0
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "augment.hpp"
#include "bindings.hpp"
#include "color.hpp"
#include "jpeg_decoder.hpp"
#include "mx_core/failure.hpp"
#include "mx_core/gil.hpp"
#include "mx_core/pybind_holder.hpp"
#include "resample.hpp"

namespace py = pybind11;

namespace mx::io {
namespace {

using WholePair = std::pair<int64_t, int64_t>;
using Pixels = py::array_t<uint8_t, py::array::c_style>;

ImageView view_of(const Pixels& image) {
  if (image.ndim() != 3 || image.size() == 0 || image.shape(2) > 4) {
    throw Error(MX_ERROR_SHAPE, "[image] expected uint8 pixels of shape (height, width, 1 to 4 channels)");
  }
  return {image.data(), image.shape(0), image.shape(1), image.shape(2), image.shape(1) * image.shape(2)};
}

Interpolation kernel_of(int code, const ImageView& view, int64_t height, int64_t width) {
  if (code == 9) return choose_interpolation(view, height, width);
  if (code < 0 || code > 4) {
    throw Error(MX_ERROR_VALUE, "[imresize] interp: expected 0 to 4 or 9, got " + std::to_string(code));
  }
  return static_cast<Interpolation>(code);
}

Pixels resize_array(const Pixels& image, int64_t height, int64_t width, int code) {
  constexpr int64_t kMaxSide = 1 << 20;
  if (height < 1 || width < 1 || height > kMaxSide || width > kMaxSide) {
    throw Error(MX_ERROR_VALUE, "[imresize] expected sides from 1 to 1048576, got height " +
                                    std::to_string(height) + ", width " + std::to_string(width));
  }
  const ImageView view = view_of(image);
  const Interpolation kernel = kernel_of(code, view, height, width);
  Pixels out({height, width, view.channels});
  uint8_t* target = out.mutable_data();
  const GilRelease release;
  resize(view, target, height, width, kernel);
  return out;
}

// A copy with hue (of 180), lightness and saturation (of 255) shifted.
Pixels shift_hls_array(const Pixels& image, float hue, float lightness, float saturation) {
  const ImageView view = view_of(image);
  Pixels out({view.height, view.width, view.channels});
  uint8_t* target = out.mutable_data();
  const GilRelease release;
  Image changed;
  changed.pixels.assign(view.pixels, view.pixels + view.height * view.row_bytes);
  changed.height = view.height, changed.width = view.width, changed.channels = view.channels;
  shift_hls(changed, hue, lightness, saturation);
  std::copy(changed.pixels.begin(), changed.pixels.end(), target);
  return out;
}

// Numbers beyond those of 32 bits, and what is no number, would become sizes.
void check_finite(const AugmentOptions& o) {
#define MX_NUMBER(name) std::pair<const char*, float>(#name, o.name)
  const std::pair<const char*, float> numbers[] = {
      MX_NUMBER(max_rotate_angle), MX_NUMBER(rotate), MX_NUMBER(max_shear_ratio), MX_NUMBER(min_random_scale),
      MX_NUMBER(max_random_scale), MX_NUMBER(min_img_size), MX_NUMBER(max_img_size), MX_NUMBER(min_random_area),
      MX_NUMBER(max_random_area), MX_NUMBER(min_aspect_ratio), MX_NUMBER(max_aspect_ratio), MX_NUMBER(brightness),
      MX_NUMBER(contrast), MX_NUMBER(saturation), MX_NUMBER(pca_noise), MX_NUMBER(max_random_contrast),
      MX_NUMBER(max_random_illumination)};
#undef MX_NUMBER
  for (const auto& [name, value] : numbers) {
    if (!std::isfinite(value)) {
      throw Error(MX_ERROR_VALUE, std::string("[augment] ") + name + ": expected a finite number of 32 bits, got " +
                                      std::to_string(value));
    }
  }
}

void check_options(const AugmentOptions& o) {
  if (o.channels < 1 || o.channels > 4 || o.height < 1 || o.width < 1 || o.height > 32768 || o.width > 32768) {
    throw Error(MX_ERROR_SHAPE, "[augment] expected 1 to 4 channels and sides from 1 to 32768");
  }
  const bool known = (o.inter_method >= 0 && o.inter_method <= 4) || o.inter_method == 9 || o.inter_method == 10;
  if (!known) {
    throw Error(MX_ERROR_VALUE, "[augment] inter_method: expected 0 to 4, 9 or 10, got " +
                                    std::to_string(o.inter_method));
  }
  if (o.resize > 32768) throw Error(MX_ERROR_VALUE, "[augment] resize: expected at most 32768");
  check_finite(o);
}

ImageView view_for(const AugmentOptions& options, const Pixels& image) {
  check_options(options);
  const ImageView view = view_of(image);
  if (view.channels != options.channels) {
    throw Error(MX_ERROR_SHAPE, "[augment] expected an image of " + std::to_string(options.channels) +
                                    " channels, got " + std::to_string(view.channels));
  }
  return view;
}

bool has_shape(const py::array& planes, const AugmentOptions& options) {
  return planes.ndim() == 3 && planes.shape(0) == options.channels && planes.shape(1) == options.height &&
         planes.shape(2) == options.width && (planes.flags() & py::array::c_style) != 0;
}

// Augments `image` into `out`, planes of float32 (normalised), uint8 or int8.
void apply(const AugmentOptions& options, const Pixels& image, py::array out, uint64_t seed, uint32_t epoch,
           uint64_t record, const std::optional<py::array_t<float>>& mean, WholePair whole) {
  const ImageView view = view_for(options, image);
  const bool is_float = py::isinstance<py::array_t<float>>(out);
  const bool is_signed = py::isinstance<py::array_t<int8_t>>(out);
  if (!has_shape(out, options) || !(is_float || is_signed || py::isinstance<py::array_t<uint8_t>>(out))) {
    throw Error(MX_ERROR_SHAPE, "[augment] expected contiguous float32, uint8 or int8 output of the options' shape");
  }
  if (mean && !has_shape(*mean, options)) {
    throw Error(MX_ERROR_SHAPE, "[augment] expected a contiguous mean image of the options' shape");
  }
  void* target = out.mutable_data();
  const float* mean_image = mean ? mean->data() : nullptr;
  const GilRelease release;
  thread_local AugmentScratch scratch;
  RecordRandom random(seed, epoch, record);
  const Augmented augmented = augment(view, options, random, scratch, {whole.first, whole.second});
  if (is_float) {
    write_planes(augmented, options, mean_image, static_cast<float*>(target));
  } else if (is_signed) {
    write_planes(augmented, options, static_cast<int8_t*>(target));
  } else {
    write_planes(augmented, options, static_cast<uint8_t*>(target));
  }
}

// The image after geometry and colours, (height, width, channels).
Pixels reshape_and_colour_array(const AugmentOptions& options, const Pixels& image, uint64_t seed, uint32_t epoch,
                                uint64_t record, WholePair whole) {
  const ImageView view = view_for(options, image);
  Pixels out({options.height, options.width, options.channels});
  uint8_t* target = out.mutable_data();
  const GilRelease release;
  thread_local AugmentScratch scratch;
  RecordRandom random(seed, epoch, record);
  const ImageView changed = reshape_and_colour(view, options, random, scratch, {whole.first, whole.second});
  const auto row_bytes = static_cast<size_t>(changed.width * changed.channels);
  for (int64_t y = 0; y < changed.height; ++y, target += row_bytes) std::memcpy(target, changed.row(y), row_bytes);
  return out;
}

double least_scale_of(const AugmentOptions& options, int64_t height, int64_t width, uint64_t seed, uint32_t epoch,
                      uint64_t record) {
  check_options(options);
  if (height < 1 || width < 1) throw Error(MX_ERROR_SHAPE, "[augment] expected sides of 1 or more");
  return least_scale(height, width, options, RecordRandom(seed, epoch, record));
}

// What one example needs of a batch.
struct Task {
  const uint8_t* data;
  size_t size;
  uint32_t epoch;
  uint64_t record;
};

// Whether an example could be decoded and augmented; what cannot is for the codecs.
bool fill_one(const AugmentOptions& options, const Task& task, uint64_t seed, bool scaled, int64_t max_pixels,
              jpeg::Decoder& decoder, AugmentScratch& scratch, Image& image, Augmented& augmented) {
  jpeg::Header header;
  if (!jpeg::read_header(task.data, task.size, header) || header.orientation != 1 ||
      header.height * header.width > max_pixels) {
    return false;
  }
  RecordRandom random(seed, task.epoch, task.record);
  if (scaled && least_scale(header.height, header.width, options, random) <= 0.5) return false;
  Region region;
  WholeSize whole{header.height, header.width, true};
  if (!first_crop(header.height, header.width, options, random, region)) {
    region = {0, 0, header.width, header.height};
    whole = WholeSize();
  }
  if (!decoder.decode(header, region, options.channels, image)) return false;
  augmented = augment(image.view(), options, random, scratch, whole);
  return true;
}

// Decodes JPEG files and augments them into the places of `out`, (examples, channels, height, width).  Returns the
// places of those that were left to the codecs.
std::vector<size_t> fill(const AugmentOptions& options, const std::vector<py::buffer>& data, py::array out,
                         uint64_t seed, const std::vector<uint32_t>& epochs, const std::vector<uint64_t>& records,
                         const std::optional<py::array_t<float>>& mean, bool scaled, int64_t max_pixels) {
  check_options(options);
  if (data.empty()) return {};
  const auto count = static_cast<py::ssize_t>(data.size());
  const bool is_float = py::isinstance<py::array_t<float>>(out);
  const bool is_signed = py::isinstance<py::array_t<int8_t>>(out);
  if (out.ndim() != 4 || out.shape(0) != count || !has_shape(out[py::int_(0)], options) ||
      epochs.size() != data.size() || records.size() != data.size() ||
      !(is_float || is_signed || py::isinstance<py::array_t<uint8_t>>(out))) {
    throw Error(MX_ERROR_SHAPE, "[augment] expected contiguous float32, uint8 or int8 output of the options' shape");
  }
  if (mean && !has_shape(*mean, options)) {
    throw Error(MX_ERROR_SHAPE, "[augment] expected a contiguous mean image of the options' shape");
  }
  std::vector<py::buffer_info> views;
  std::vector<Task> tasks;
  for (size_t i = 0; i < data.size(); ++i) {
    views.push_back(data[i].request());
    const py::buffer_info& view = views.back();
    const bool plain = view.itemsize == 1 && view.ndim == 1 && (view.size == 0 || view.strides[0] == 1);
    const size_t size = plain ? static_cast<size_t>(view.size) : 0;
    tasks.push_back({static_cast<const uint8_t*>(view.ptr), size, epochs[i], records[i]});
  }
  const int64_t pixels = options.channels * options.height * options.width;
  void* const target = out.mutable_data();
  const float* mean_image = mean ? mean->data() : nullptr;
  std::vector<size_t> left;
  const GilRelease release;
  thread_local jpeg::Decoder decoder;
  thread_local AugmentScratch scratch;
  thread_local Image image;
  for (size_t i = 0; i < tasks.size(); ++i) {
    Augmented augmented;
    if (!fill_one(options, tasks[i], seed, scaled, max_pixels, decoder, scratch, image, augmented)) {
      left.push_back(i);
    } else if (const int64_t begin = static_cast<int64_t>(i) * pixels; is_float) {
      write_planes(augmented, options, mean_image, static_cast<float*>(target) + begin);
    } else if (is_signed) {
      write_planes(augmented, options, static_cast<int8_t*>(target) + begin);
    } else {
      write_planes(augmented, options, static_cast<uint8_t*>(target) + begin);
    }
  }
  return left;
}

void set_quad(float (&target)[4], const std::array<float, 4>& values) {
  std::copy(values.begin(), values.end(), target);
}

}  // namespace

void bind_images(py::module_& module) {
  module.def("resize", &resize_array, py::arg("image").noconvert(), py::arg("height"), py::arg("width"),
             py::arg("interp"));
  module.def("shift_hls", &shift_hls_array, py::arg("image").noconvert(), py::arg("hue"), py::arg("lightness"),
             py::arg("saturation"));
  py::class_<AugmentOptions> options(module, "AugmentOptions", py::module_local());
  options.def("__init__", mx::init<std::unique_ptr<AugmentOptions>>(), py::detail::is_new_style_constructor());
#define MX_OPTION(name) options.def_readwrite(#name, &AugmentOptions::name)
  MX_OPTION(channels); MX_OPTION(height); MX_OPTION(width); MX_OPTION(resize);
  MX_OPTION(max_rotate_angle); MX_OPTION(rotate); MX_OPTION(max_shear_ratio);
  MX_OPTION(min_random_scale); MX_OPTION(max_random_scale); MX_OPTION(min_img_size); MX_OPTION(max_img_size);
  MX_OPTION(pad); MX_OPTION(fill_value); MX_OPTION(rand_crop); MX_OPTION(random_resized_crop);
  MX_OPTION(min_crop_size); MX_OPTION(max_crop_size); MX_OPTION(min_random_area); MX_OPTION(max_random_area);
  MX_OPTION(min_aspect_ratio); MX_OPTION(max_aspect_ratio);
  MX_OPTION(brightness); MX_OPTION(contrast); MX_OPTION(saturation); MX_OPTION(pca_noise);
  MX_OPTION(random_h); MX_OPTION(random_s); MX_OPTION(random_l); MX_OPTION(inter_method);
  MX_OPTION(mirror); MX_OPTION(rand_mirror);
  MX_OPTION(max_random_contrast); MX_OPTION(max_random_illumination); MX_OPTION(scale);
#undef MX_OPTION
  options.def("set_mean", [](AugmentOptions& o, const std::array<float, 4>& v) { set_quad(o.mean, v); });
  options.def("set_std", [](AugmentOptions& o, const std::array<float, 4>& v) { set_quad(o.std, v); });
  options.def("check", &check_options);
  options.def("apply", &apply, py::arg("image").noconvert(), py::arg("out").noconvert(), py::arg("seed"),
              py::arg("epoch"), py::arg("record"), py::arg("mean") = py::none(), py::arg("whole") = WholePair(0, 0));
  options.def("fill", &fill, py::arg("data"), py::arg("out").noconvert(), py::arg("seed"), py::arg("epochs"),
              py::arg("records"), py::arg("mean"), py::arg("scaled"), py::arg("max_pixels"));
  options.def("reshape_and_colour", &reshape_and_colour_array, py::arg("image").noconvert(), py::arg("seed"),
              py::arg("epoch"), py::arg("record"), py::arg("whole") = WholePair(0, 0));
  options.def("least_scale", &least_scale_of, py::arg("height"), py::arg("width"), py::arg("seed"),
              py::arg("epoch"), py::arg("record"));
}

}  // namespace mx::io
