// SPDX-License-Identifier: Apache-2.0
#include "augment.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "affine.hpp"
#include "color.hpp"
#include "planes.hpp"
#include "resample.hpp"

namespace mx::io {
namespace {

// Sides of intermediate images stay below this, whatever the options and the input say.
constexpr int64_t kMaxSide = 32768;

bool wants_affine(const AugmentOptions& o) {
  return o.max_rotate_angle > 0 || o.rotate > 0 || o.max_shear_ratio > 0 || o.min_random_scale != 1 ||
         o.max_random_scale != 1 || o.min_img_size > 0 || o.max_img_size < 1e9F ||
         (!o.random_resized_crop && o.max_aspect_ratio > 0);
}

// A region of random area and aspect ratio; the square in the middle after ten tries.
Region random_region(int64_t height, int64_t width, const AugmentOptions& o, RecordRandom& random) {
  const double area = static_cast<double>(height) * static_cast<double>(width);
  const float low = o.min_aspect_ratio > 0 ? o.min_aspect_ratio : 1.0F - o.max_aspect_ratio;
  const float high = o.min_aspect_ratio > 0 ? o.max_aspect_ratio : 1.0F + o.max_aspect_ratio;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * random.uniform(o.min_random_area, o.max_random_area);
    const double ratio = std::max(1e-3F, random.uniform(low, high));
    auto h = static_cast<int64_t>(std::sqrt(target / ratio) + 0.5);
    auto w = static_cast<int64_t>(std::sqrt(target * ratio) + 0.5);
    if (random.uniform() < 0.5F) std::swap(h, w);
    if (h < 1 || w < 1 || h > height || w > width) continue;
    const int64_t y = random.integer(height - h + 1);
    return {random.integer(width - w + 1), y, w, h};
  }
  const int64_t side = std::min(height, width);
  return {(width - side) / 2, (height - side) / 2, side, side};
}

// A region of this size: in the middle, or anywhere.
Region placed(int64_t height, int64_t width, int64_t h, int64_t w, const AugmentOptions& o, RecordRandom& random) {
  const int64_t room_y = height - h, room_x = width - w;
  const int64_t y = o.rand_crop ? random.integer(room_y + 1) : room_y / 2;
  const int64_t x = o.rand_crop ? random.integer(room_x + 1) : room_x / 2;
  return {x, y, w, h};
}

Region square_region(int64_t height, int64_t width, const AugmentOptions& o, RecordRandom& random) {
  const int64_t low = o.min_crop_size > 0 ? o.min_crop_size : o.max_crop_size;
  const int64_t high = std::max(low, o.max_crop_size);
  const int64_t side = std::min(std::min(height, width), low + random.integer(high - low + 1));
  return placed(height, width, side, side, o, random);
}

class Augmentation {
 public:
  Augmentation(const ImageView& image, const AugmentOptions& options, RecordRandom& random,
               AugmentScratch& scratch, WholeSize whole)
      : view_(image), options_(options), random_(random), current_(&scratch.a), other_(&scratch.b),
        whole_(whole.height > 0 && whole.width > 0 ? whole : WholeSize{image.height, image.width, false}) {}

  ImageView reshape_and_colour() {
    reshape(false);
    colour();
    return view_;
  }

  Augmented run() {
    Augmented result;
    // Colours need the pixels; without them rows are resized while they are copied out.
    reshape(!has_colours());
    result.kernel = kernel_;
    colour();
    result.image = view_;
    if (options_.rand_mirror) result.mirrored = random_.uniform() < 0.5F;
    if (options_.mirror) result.mirrored = true;
    if (options_.max_random_contrast > 0) {
      result.contrast = 1.0F + random_.uniform(-options_.max_random_contrast, options_.max_random_contrast);
    }
    if (options_.max_random_illumination > 0) {
      result.illumination =
          random_.uniform(-options_.max_random_illumination, options_.max_random_illumination);
    }
    return result;
  }

 private:
  bool has_colours() const {
    const AugmentOptions& o = options_;
    return o.brightness > 0 || o.contrast > 0 || o.saturation > 0 || o.random_h > 0 || o.random_s > 0 ||
           o.random_l > 0 || o.pca_noise > 0;
  }

  void reshape(bool later) {
    if (options_.resize > 0) resize_short(options_.resize);
    if (wants_affine(options_)) affine();
    if (options_.pad > 0) pad();
    crop(later);
  }

  // The view now shows `other_`, which changes places with `current_`.
  void adopt_other() {
    std::swap(current_, other_);
    view_ = current_->view();
  }

  // `later`: only what it will be by is chosen.
  void resize_to(int64_t height, int64_t width, bool later = false) {
    height = std::clamp<int64_t>(height, 1, kMaxSide);
    width = std::clamp<int64_t>(width, 1, kMaxSide);
    if (height == view_.height && width == view_.width) return;
    int64_t code = options_.inter_method;
    if (code == 10) code = random_.integer(5);
    const Interpolation kernel = code == 9 ? choose_interpolation(view_, height, width)
                                           : static_cast<Interpolation>(code);
    kernel_ = kernel;
    if (later) return;
    other_->reshape(height, width, view_.channels);
    resize(view_, other_->pixels.data(), height, width, kernel);
    adopt_other();
  }

  void resize_short(int64_t side) {
    const int64_t shorter = std::min(whole_.height, whole_.width);
    resize_to(whole_.height * side / shorter, whole_.width * side / shorter);
  }

  void affine() {
    const AugmentOptions& o = options_;
    Affine map;
    if (o.max_rotate_angle > 0) map.degrees = random_.uniform(-o.max_rotate_angle, o.max_rotate_angle);
    if (o.rotate > 0) map.degrees = o.rotate;
    if (o.max_shear_ratio > 0) map.shear = random_.uniform(-o.max_shear_ratio, o.max_shear_ratio);
    const float scale = random_.uniform(o.min_random_scale, o.max_random_scale);
    const float ratio = o.max_aspect_ratio > 0 && !o.random_resized_crop
                            ? 1.0F + random_.uniform(-o.max_aspect_ratio, o.max_aspect_ratio)
                            : 1.0F;
    map.scale_x = std::max(1e-4F, 2.0F * scale / (1.0F + ratio));
    map.scale_y = std::max(1e-4F, ratio * map.scale_x);
    const auto side = [&](int64_t length) {
      const float wanted = std::clamp(scale * static_cast<float>(length), o.min_img_size,
                                      std::max(o.min_img_size, o.max_img_size));
      return static_cast<int64_t>(std::clamp(wanted, 1.0F, static_cast<float>(kMaxSide)));
    };
    transform(view_, map, side(view_.height), side(view_.width), fill(), *other_);
    adopt_other();
  }

  uint8_t fill() const { return static_cast<uint8_t>(std::clamp(options_.fill_value, 0, 255)); }

  void pad() {
    const int64_t margin = std::min(options_.pad, kMaxSide);
    other_->reshape(view_.height + 2 * margin, view_.width + 2 * margin, view_.channels);
    std::fill(other_->pixels.begin(), other_->pixels.end(), fill());
    for (int64_t y = 0; y < view_.height; ++y) {
      std::memcpy(other_->row(y + margin) + margin * view_.channels, view_.row(y),
                  static_cast<size_t>(view_.width * view_.channels));
    }
    adopt_other();
  }

  void crop(bool later) {
    if (options_.random_resized_crop) {
      crop_random_region();
      resize_to(options_.height, options_.width, later);
    } else if (options_.min_crop_size > 0 || options_.max_crop_size > 0) {
      crop_to(square_region(height(), width(), options_, random_));
      resize_to(options_.height, options_.width, later);
    } else {
      crop_plain();
    }
  }

  // Height and width of which a crop is chosen: of the whole image, unless something has changed its shape: then it was
  // not decoded at a smaller scale, or is as large now as it would be otherwise.
  WholeSize size() const {
    const bool reshaped = options_.resize > 0 || options_.pad > 0 || wants_affine(options_);
    return reshaped ? WholeSize{view_.height, view_.width, false} : whole_;
  }

  void crop_random_region() {
    const WholeSize whole = size();
    const Region region = random_region(whole.height, whole.width, options_, random_);
    if (whole_.cut) return;
    const auto scaled = [](int64_t place, int64_t from, int64_t to) { return (place * to + from / 2) / from; };
    const int64_t x = std::min(scaled(region.x, whole.width, view_.width), view_.width - 1);
    const int64_t y = std::min(scaled(region.y, whole.height, view_.height), view_.height - 1);
    const int64_t right = scaled(region.x + region.width, whole.width, view_.width);
    const int64_t lower = scaled(region.y + region.height, whole.height, view_.height);
    view_ = view_.crop(x, y, std::max<int64_t>(1, right - x), std::max<int64_t>(1, lower - y));
  }

  void crop_to(const Region& region) {
    if (!whole_.cut) view_ = view_.crop(region.x, region.y, region.width, region.height);
  }

  int64_t height() const { return whole_.cut ? whole_.height : view_.height; }
  int64_t width() const { return whole_.cut ? whole_.width : view_.width; }

  void crop_plain() {
    // One side after the other grows in proportion, and the other is rounded down, as MXNet does it.
    const auto share = [](int64_t wanted, int64_t given, int64_t other) {
      return static_cast<int64_t>(static_cast<float>(wanted) / static_cast<float>(given) * static_cast<float>(other));
    };
    if (height() < options_.height) {
      resize_to(options_.height, share(options_.height, view_.height, view_.width));
    }
    if (width() < options_.width) {
      resize_to(share(options_.width, view_.width, view_.height), options_.width);
    }
    // An image thinner than the size limit allows cannot be grown in proportion.
    if (height() < options_.height || width() < options_.width) {
      resize_to(std::max(options_.height, view_.height), std::max(options_.width, view_.width));
    }
    crop_to(placed(height(), width(), options_.height, options_.width, options_, random_));
  }

  // The view's pixels in `current_`, adjacent and free to be changed.
  Image& own() {
    if (view_.pixels == current_->pixels.data() && view_.height == current_->height &&
        view_.width == current_->width) {
      return *current_;
    }
    other_->reshape(view_.height, view_.width, view_.channels);
    for (int64_t y = 0; y < view_.height; ++y) {
      std::memcpy(other_->row(y), view_.row(y), static_cast<size_t>(view_.width * view_.channels));
    }
    adopt_other();
    return *current_;
  }

  float factor(float strength) { return 1.0F + random_.uniform(-strength, strength); }

  void colour() {
    const AugmentOptions& o = options_;
    if (o.brightness > 0 || o.contrast > 0 || o.saturation > 0) {
      int order[3] = {0, 1, 2};
      for (int i = 2; i > 0; --i) std::swap(order[i], order[random_.integer(i + 1)]);
      for (const int step : order) {
        if (step == 0 && o.brightness > 0) scale_brightness(own(), factor(o.brightness));
        if (step == 1 && o.contrast > 0) scale_contrast(own(), factor(o.contrast));
        if (step == 2 && o.saturation > 0) scale_saturation(own(), factor(o.saturation));
      }
    }
    const auto shift = [&](int64_t limit) {
      return random_.uniform(-static_cast<float>(limit), static_cast<float>(limit));
    };
    if (o.random_h > 0 || o.random_s > 0 || o.random_l > 0) {
      const float h = shift(o.random_h), s = shift(o.random_s), l = shift(o.random_l);
      shift_hls(own(), h, l, s);
    }
    if (o.pca_noise > 0) {
      // Principal components of the colours of ImageNet (Krizhevsky et al., NIPS 2012), red first.
      static constexpr float kValue[3] = {55.46F, 4.794F, 1.148F};
      static constexpr float kVector[3][3] = {
          {-0.5675F, 0.7192F, 0.4009F}, {-0.5808F, -0.0045F, -0.8140F}, {-0.5836F, -0.6948F, 0.4203F}};
      float shifts[3] = {0, 0, 0};
      for (int k = 0; k < 3; ++k) {
        const float alpha = random_.normal() * o.pca_noise * kValue[k];
        for (int c = 0; c < 3; ++c) shifts[c] += alpha * kVector[c][k];
      }
      shift_channels(own(), shifts);
    }
  }

  ImageView view_;
  const AugmentOptions& options_;
  RecordRandom& random_;
  Image* current_;
  Image* other_;
  WholeSize whole_;
  Interpolation kernel_ = Interpolation::kLinear;
};

// Gives the rows of the finished image to `use(y, row)`.
template <class Use>
void for_each_row(const Augmented& augmented, const AugmentOptions& options, Use&& use) {
  const ImageView& image = augmented.image;
  if (image.height == options.height && image.width == options.width) {
    for (int64_t y = 0; y < image.height; ++y) use(y, image.row(y));
    return;
  }
  ResizedRows rows(image, options.height, options.width, augmented.kernel);
  thread_local std::vector<uint8_t> row;
  row.resize(static_cast<size_t>(options.width * image.channels + ResizedRows::kSlack));
  for (int64_t y = 0; y < options.height; ++y) {
    rows.row(y, row.data());
    use(y, row.data());
  }
}

void write_bytes(const Augmented& augmented, const AugmentOptions& options, uint8_t most, uint8_t* out) {
  const int64_t width = options.width, area = options.height * width, channels = augmented.image.channels;
  for_each_row(augmented, options, [&](int64_t y, const uint8_t* row) {
    write_byte_row(row, width, channels, augmented.mirrored, most, area, out + y * width);
  });
}

}  // namespace

Augmented augment(const ImageView& image, const AugmentOptions& options, RecordRandom& random,
                  AugmentScratch& scratch, WholeSize whole) {
  return Augmentation(image, options, random, scratch, whole).run();
}

ImageView reshape_and_colour(const ImageView& image, const AugmentOptions& options, RecordRandom& random,
                             AugmentScratch& scratch, WholeSize whole) {
  return Augmentation(image, options, random, scratch, whole).reshape_and_colour();
}

bool first_crop(int64_t height, int64_t width, const AugmentOptions& options, RecordRandom random, Region& region) {
  if (options.resize > 0 || options.pad > 0 || wants_affine(options)) return false;
  if (options.random_resized_crop) {
    region = random_region(height, width, options, random);
  } else if (options.min_crop_size > 0 || options.max_crop_size > 0) {
    region = square_region(height, width, options, random);
  } else if (height >= options.height && width >= options.width) {
    region = placed(height, width, options.height, options.width, options, random);
  } else {
    return false;
  }
  return true;
}

double least_scale(int64_t height, int64_t width, const AugmentOptions& options, RecordRandom random) {
  const auto share = [](int64_t wanted, int64_t given) {
    return static_cast<double>(wanted) / static_cast<double>(given);
  };
  if (options.resize > 0) return std::min(1.0, share(options.resize, std::min(height, width)));
  // Everything else counts pixels of the whole image.
  if (!options.random_resized_crop || options.pad > 0 || wants_affine(options)) return 1.0;
  const Region region = random_region(height, width, options, random);
  return std::min(1.0, std::max(share(options.height, region.height), share(options.width, region.width)));
}

void write_planes(const Augmented& augmented, const AugmentOptions& options, const float* mean_image, float* out) {
  PlaneScale scale{};
  for (int64_t c = 0; c < augmented.image.channels; ++c) {
    const float unit = options.scale / options.std[c];
    scale.slope[c] = augmented.contrast * unit;
    scale.offset[c] = augmented.illumination * unit;
    if (mean_image == nullptr) scale.offset[c] -= options.mean[c] * scale.slope[c];
  }
  const int64_t width = options.width, area = options.height * width, channels = augmented.image.channels;
  for_each_row(augmented, options, [&](int64_t y, const uint8_t* row) {
    write_float_row(row, width, channels, augmented.mirrored, scale, area, out + y * width);
  });
  if (mean_image == nullptr) return;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t y = 0; y < options.height; ++y, out += width, mean_image += width) {
      for (int64_t x = 0; x < width; ++x) {
        out[x] -= scale.slope[c] * mean_image[augmented.mirrored ? width - 1 - x : x];
      }
    }
  }
}

void write_planes(const Augmented& augmented, const AugmentOptions& options, uint8_t* out) {
  write_bytes(augmented, options, 255, out);
}

void write_planes(const Augmented& augmented, const AugmentOptions& options, int8_t* out) {
  write_bytes(augmented, options, 127, reinterpret_cast<uint8_t*>(out));
}

}  // namespace mx::io
