// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "affine.hpp"
#include "augment.hpp"
#include "color.hpp"
#include "planes.hpp"
#include "resample.hpp"
#include "mx_core/native_tests.hpp"

using namespace mx::io;

namespace {

Image noise(int64_t height, int64_t width, int64_t channels, uint32_t seed) {
  std::mt19937 random(seed);
  Image image;
  image.reshape(height, width, channels);
  for (uint8_t& value : image.pixels) value = static_cast<uint8_t>(random());
  return image;
}

std::vector<float> run(const Image& image, const AugmentOptions& options, uint32_t epoch, uint64_t record) {
  static AugmentScratch scratch;  // as a thread keeps it, dirty from the image before
  RecordRandom random(9, epoch, record);
  std::vector<float> out(options.channels * options.height * options.width);
  write_planes(augment(image.view(), options, random, scratch), options, nullptr, out.data());
  return out;
}

AugmentOptions options_for(int64_t channels, int64_t height, int64_t width) {
  AugmentOptions options;
  options.channels = channels, options.height = height, options.width = width;
  return options;
}

// The generator's published test vector for an all-zero key and counter.
void philox_matches_its_known_answer() {
  RecordRandom random(0, 0, 0);
  for (const uint32_t expected : {0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}) CHECK(random.bits() == expected);
}

void same_size_gives_the_pixels_in_planes() {
  const Image image = noise(5, 4, 3, 1);
  const std::vector<float> out = run(image, options_for(3, 5, 4), 0, 0);
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t i = 0; i < 20; ++i) CHECK(out[c * 20 + i] == image.pixels[i * 3 + c]);
  }
}

void normalisation_subtracts_divides_and_scales() {
  AugmentOptions options = options_for(3, 2, 2);
  options.mean[1] = 7, options.std[1] = 4, options.scale = 0.5F, options.mirror = true;
  const Image image = noise(2, 2, 3, 2);
  const std::vector<float> out = run(image, options, 0, 0);
  const float expected = (image.pixels[3 + 1] - 7.0F) / 4.0F * 0.5F;  // the right pixel of the upper row
  CHECK(std::fabs(out[4] - expected) < 1e-4F);
}

void every_width_and_direction_gives_the_same_values() {
  const PlaneScale scale{{0.25F, 0.3F, 0.7F, 1.1F}, {-1, 2, 0.5F, 0}};
  for (const int64_t channels : {1, 3, 4}) {
    for (int64_t width = 1; width < 70; ++width) {
      const Image image = noise(2, width + 3, channels, static_cast<uint32_t>(width));
      const ImageView view = image.view().crop(1, 0, width, 2);
      for (const bool mirrored : {false, true}) {
        std::vector<float> out(channels * 2 * width);
        for (int64_t y = 0; y < 2; ++y) {
          write_float_row(view.row(y), width, channels, mirrored, scale, 2 * width, out.data() + y * width);
        }
        for (int64_t i = 0; i < channels * 2 * width; ++i) {
          const int64_t c = i / (2 * width), y = i / width % 2, x = mirrored ? width - 1 - i % width : i % width;
          const float expected = view.row(y)[x * channels + c] * scale.slope[c] + scale.offset[c];
          CHECK(std::fabs(out[i] - expected) < 1e-4F);
        }
      }
    }
  }
}

void resizing_keeps_constants_and_identity() {
  Image flat;
  flat.reshape(13, 17, 3);
  std::memset(flat.pixels.data(), 77, flat.pixels.size());
  for (int kernel = 0; kernel <= 4; ++kernel) {
    for (const int64_t side : {1, 2, 7, 13, 40}) {
      std::vector<uint8_t> out(side * (side + 1) * 3);
      resize(flat.view(), out.data(), side, side + 1, static_cast<Interpolation>(kernel));
      for (const uint8_t value : out) CHECK(value == 77);
    }
  }
  const Image image = noise(6, 6, 3, 3);
  std::vector<uint8_t> same(4 * 5 * 3);
  resize(image.view().crop(1, 2, 5, 4), same.data(), 4, 5, Interpolation::kCubic);
  for (int64_t y = 0; y < 4; ++y) CHECK(std::memcmp(&same[y * 15], image.view().row(y + 2) + 3, 15) == 0);
  std::vector<uint8_t> halves(3 * 3 * 3);
  resize(image.view(), halves.data(), 3, 3, Interpolation::kArea);
  const float mean = (image.pixels[0] + image.pixels[3] + image.pixels[18] + image.pixels[21]) / 4.0F;
  CHECK(std::fabs(static_cast<float>(halves[0]) - mean) <= 0.5F);
}

void hue_of_a_full_circle_changes_nothing() {
  Image image = noise(8, 8, 3, 4);
  const std::vector<uint8_t> before = image.pixels;
  shift_hls(image, 180, 0, 0);
  for (size_t i = 0; i < before.size(); ++i) CHECK(std::abs(before[i] - image.pixels[i]) <= 1);
}

// What is drawn for a record, in which order, and what is made of it.
void draws_of_a_record() {
  const Image image = noise(7, 9, 3, 8);
  AugmentScratch scratch;
  const auto apply = [&](const AugmentOptions& options) {
    RecordRandom random(9, 4, 2);
    return augment(image.view(), options, random, scratch);
  };
  RecordRandom drawn(9, 4, 2);
  const float first = drawn.uniform(), second = drawn.uniform(), third = drawn.uniform();

  AugmentOptions options = options_for(3, 7, 9);
  options.max_random_contrast = 0.5F, options.max_random_illumination = 10;
  CHECK(std::fabs(apply(options).contrast - (0.5F + first)) < 1e-6F);
  CHECK(std::fabs(apply(options).illumination - (20 * second - 10)) < 1e-5F);
  options.rand_mirror = true;
  CHECK(apply(options).mirrored == (first < 0.5F));
  CHECK(std::fabs(apply(options).contrast - (0.5F + second)) < 1e-6F);
  CHECK(std::fabs(apply(options).illumination - (20 * third - 10)) < 1e-5F);

  AugmentOptions crop = options_for(3, 4, 5);
  const auto corner = [&](int64_t y, int64_t x) { return image.view().row(y) + x * 3; };
  CHECK(apply(crop).image.pixels == corner(1, 2));
  crop.rand_crop = true;
  CHECK(apply(crop).image.pixels == corner(static_cast<int64_t>(first * 4), static_cast<int64_t>(second * 5)));

  AugmentOptions square = options_for(3, 5, 5);
  square.min_crop_size = square.max_crop_size = 5;
  CHECK(apply(square).image.pixels == corner(1, 2) && apply(square).image.width == 5);

  AugmentOptions padded = options_for(3, 11, 13);
  padded.pad = 2, padded.fill_value = 6;
  const ImageView around = apply(padded).image;
  CHECK(around.height == 11 && around.width == 13 && around.row(1)[0] == 6 && around.row(10)[12 * 3] == 6);
  for (int64_t y = 0; y < 7; ++y) CHECK(std::memcmp(around.row(y + 2) + 2 * 3, image.view().row(y), 9 * 3) == 0);
}

// Quarter turns, shifts by shear and enlargements by whole factors, element by element.
void affine_maps_of_known_effect() {
  const Image image = noise(5, 5, 1, 9);
  const auto pixel = [&](int64_t y, int64_t x) {
    return y < 0 || x < 0 || y >= 5 || x >= 5 ? 200 : static_cast<int>(image.view().row(y)[x]);
  };
  const auto expect = [&](const Affine& map, int64_t side, const auto& source) {
    Image out;
    transform(image.view(), map, side, side, 200, out);
    for (int64_t y = 0; y < side; ++y) {
      for (int64_t x = 0; x < side; ++x) CHECK(std::abs(out.row(y)[x] - source(y, x)) <= 1);
    }
  };
  expect({}, 5, pixel);
  expect({}, 7, [&](int64_t y, int64_t x) { return pixel(y - 1, x - 1); });
  expect({}, 3, [&](int64_t y, int64_t x) { return pixel(y + 1, x + 1); });
  expect({}, 4, [&](int64_t y, int64_t x) {
    return (pixel(y, x) + pixel(y, x + 1) + pixel(y + 1, x) + pixel(y + 1, x + 1)) / 4;
  });
  expect({90.0F}, 5, [&](int64_t y, int64_t x) { return pixel(x, 4 - y); });
  expect({180.0F}, 5, [&](int64_t y, int64_t x) { return pixel(4 - y, 4 - x); });
  expect({0.0F, 1.0F}, 5, [&](int64_t y, int64_t x) { return pixel(y, x - (y - 2)); });
  expect({0.0F, 0.0F, 2.0F, 1.0F}, 5, [&](int64_t y, int64_t x) {
    const int64_t left = x % 2 == 0 ? x / 2 + 1 : (x + 1) / 2;
    return x % 2 == 0 ? pixel(y, left) : (pixel(y, left) + pixel(y, left + 1)) / 2;
  });
}

// Any options on any image: the result has its shape, is finite, and depends on seed, epoch and record alone.
void random_options_on_random_images() {
  std::mt19937 random(5);
  const auto chance = [&] { return random() % 3 == 0; };
  bool differs = false;
  for (int round = 0; round < 1500; ++round) {
    const int64_t channels = std::vector<int64_t>{1, 3, 4}[random() % 3];
    AugmentOptions o = options_for(channels, 1 + random() % 20, 1 + random() % 20);
    if (chance()) o.resize = 1 + random() % 40;
    if (chance()) o.max_rotate_angle = static_cast<float>(random() % 180);
    if (chance()) o.max_shear_ratio = 0.3F;
    if (chance()) o.min_random_scale = 0.2F, o.max_random_scale = 2;
    if (chance()) o.max_img_size = 9;
    if (chance()) o.pad = random() % 5;
    if (chance()) o.max_aspect_ratio = 0.9F;
    o.rand_crop = chance(), o.random_resized_crop = chance(), o.rand_mirror = chance();
    if (chance()) o.min_crop_size = 1 + random() % 9, o.max_crop_size = random() % 30;
    if (chance()) o.min_random_area = 0.05F;
    if (chance()) o.brightness = 0.5F, o.contrast = 0.9F;
    if (chance()) o.saturation = 2;
    if (chance()) o.random_h = 60, o.random_l = 100, o.random_s = 100;
    if (chance()) o.pca_noise = 0.1F;
    if (chance()) o.max_random_contrast = 0.5F, o.max_random_illumination = 10;
    o.inter_method = std::vector<int32_t>{0, 1, 2, 3, 4, 9, 10}[random() % 7];
    const Image image = noise(1 + random() % 30, 1 + random() % 30, channels, static_cast<uint32_t>(round));
    const std::vector<float> first = run(image, o, 1, round);
    run(noise(9, 9, channels, 0), o, 3, 3);
    CHECK(first == run(image, o, 1, round));
    for (const float value : first) CHECK(std::isfinite(value));
    differs = differs || first != run(image, o, 2, round);
  }
  CHECK(differs);
}

void a_thread_of_an_image_is_enlarged_within_bounds() {
  run(noise(1, 40000, 1, 6), options_for(1, 8, 8), 0, 0);
  run(noise(40000, 1, 1, 7), options_for(1, 8, 8), 0, 0);
}

void mean_images_are_subtracted_and_mirrored_and_signed_bytes_end_at_127() {
  const Image image = noise(5, 7, 3, 8);
  AugmentOptions o = options_for(3, 5, 7);
  o.mirror = true, o.scale = 0.5F, o.std[1] = 2;
  std::vector<float> mean(3 * 5 * 7), plain(mean.size()), centred(mean.size());
  for (size_t i = 0; i < mean.size(); ++i) mean[i] = static_cast<float>(i);
  AugmentScratch scratch;
  RecordRandom random(0, 0, 0);
  const Augmented augmented = augment(image.view(), o, random, scratch);
  write_planes(augmented, o, nullptr, plain.data());
  write_planes(augmented, o, mean.data(), centred.data());
  std::vector<int8_t> signed_bytes(mean.size());
  std::vector<uint8_t> bytes(mean.size());
  write_planes(augmented, o, signed_bytes.data());
  write_planes(augmented, o, bytes.data());
  for (int64_t row = 0; row < 15; ++row) {
    const float unit = row / 5 == 1 ? 0.25F : 0.5F;
    for (int64_t x = 0; x < 7; ++x) {
      const float expected = plain[row * 7 + x] - unit * mean[row * 7 + 6 - x];
      CHECK(std::fabs(centred[row * 7 + x] - expected) < 1e-4F);
      CHECK(signed_bytes[row * 7 + x] == std::min<int>(bytes[row * 7 + x], 127));
    }
  }
}

// A crop that is decoded alone goes on with the same random numbers.
void an_image_that_is_a_crop_gives_what_the_whole_gives() {
  for (int kind = 0; kind < 3; ++kind) {
    AugmentOptions o = options_for(3, 20, 24);
    o.rand_mirror = true, o.rand_crop = kind != 0;
    if (kind == 0) o.random_resized_crop = true, o.min_random_area = 0.1F, o.max_aspect_ratio = 0.5F;
    if (kind == 1) o.min_crop_size = 7, o.max_crop_size = 50, o.brightness = 0.3F, o.inter_method = 10;
    for (uint32_t record = 0; record < 100; ++record) {
      const int64_t height = 20 + record % 31, width = 24 + record % 17;
      const Image image = noise(height, width, 3, record);
      const RecordRandom random(1, 2, record);
      Region region;
      CHECK(first_crop(height, width, o, random, region));
      const ImageView part = image.view().crop(region.x, region.y, region.width, region.height);
      std::vector<uint8_t> whole(3 * 20 * 24), alone(whole.size());
      AugmentScratch scratch;
      RecordRandom first = random, second = random;
      write_planes(augment(image.view(), o, first, scratch), o, whole.data());
      write_planes(augment(part, o, second, scratch, {height, width, true}), o, alone.data());
      CHECK(whole == alone);
    }
  }
  Region region;
  CHECK(!first_crop(10, 50, options_for(3, 20, 24), RecordRandom(0, 0, 0), region));
}

// In fixed point: no value is further than one from the exact mixture of four pixels.
void linear_resizing_is_exact_to_one() {
  std::mt19937 draws(4);
  for (int i = 0; i < 60; ++i) {
    const int64_t channels = i % 4 + 1, height = 1 + draws() % 40, width = 1 + draws() % 40;
    const int64_t to_height = 1 + draws() % 60, to_width = 1 + draws() % 60;
    const Image image = noise(height, width, channels, static_cast<uint32_t>(i));
    std::vector<uint8_t> out(to_height * to_width * channels);
    resize(image.view(), out.data(), to_height, to_width, Interpolation::kLinear);
    const auto axis = [](int64_t at, int64_t from, int64_t to, int64_t& low, int64_t& high) {
      const double centre = (static_cast<double>(at) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
      low = std::clamp<int64_t>(static_cast<int64_t>(std::floor(centre)), 0, from - 1);
      high = std::clamp<int64_t>(static_cast<int64_t>(std::floor(centre)) + 1, 0, from - 1);
      return centre - std::floor(centre);
    };
    for (int64_t at = 0; at < static_cast<int64_t>(out.size()); ++at) {
      int64_t top, bottom, left, right;
      const double down = axis(at / channels / to_width, height, to_height, top, bottom);
      const double across = axis(at / channels % to_width, width, to_width, left, right);
      const auto pixel = [&](int64_t y, int64_t x) { return image.view().row(y)[x * channels + at % channels]; };
      const double exact = (pixel(top, left) * (1 - across) + pixel(top, right) * across) * (1 - down) +
                           (pixel(bottom, left) * (1 - across) + pixel(bottom, right) * across) * down;
      CHECK(std::fabs(out[at] - exact) < 0.53);
    }
  }
}

void smaller_images_give_the_same_crop() {
  AugmentOptions o = options_for(3, 16, 16);
  o.random_resized_crop = true, o.min_random_area = 0.1F, o.max_aspect_ratio = 0.5F;
  std::mt19937 draws(9);
  for (uint32_t record = 0; record < 300; ++record) {
    const int64_t height = 64 + static_cast<int64_t>(draws() % 400), width = 64 + static_cast<int64_t>(draws() % 400);
    RecordRandom random(1, 2, record);
    const double scale = least_scale(height, width, o, random);
    CHECK(scale > 0 && scale <= 1);
    const int64_t divisor = scale <= 0.125 ? 8 : scale <= 0.25 ? 4 : scale <= 0.5 ? 2 : 1;
    const Image image = noise((height + divisor - 1) / divisor, (width + divisor - 1) / divisor, 3, record);
    AugmentScratch scratch;
    const Augmented augmented = augment(image.view(), o, random, scratch, {height, width});
    std::vector<float> planes(3 * 16 * 16, -1.0F);
    write_planes(augmented, o, nullptr, planes.data());
    CHECK(std::none_of(planes.begin(), planes.end(), [](float value) { return value < 0.0F; }));
  }
  o.resize = 20;
  CHECK(least_scale(200, 100, o, RecordRandom(0, 0, 0)) == 0.2);
  o.resize = 300;
  CHECK(least_scale(200, 100, o, RecordRandom(0, 0, 0)) == 1.0);
  CHECK(least_scale(200, 100, options_for(3, 8, 8), RecordRandom(0, 0, 0)) == 1.0);
}

}  // namespace

int main() {
  philox_matches_its_known_answer();
  same_size_gives_the_pixels_in_planes();
  normalisation_subtracts_divides_and_scales();
  every_width_and_direction_gives_the_same_values();
  resizing_keeps_constants_and_identity();
  hue_of_a_full_circle_changes_nothing();
  draws_of_a_record();
  affine_maps_of_known_effect();
  random_options_on_random_images();
  a_thread_of_an_image_is_enlarged_within_bounds();
  mean_images_are_subtracted_and_mirrored_and_signed_bytes_end_at_127();
  smaller_images_give_the_same_crop();
  an_image_that_is_a_crop_gives_what_the_whole_gives();
  linear_resizing_is_exact_to_one();
  std::puts("ok");
}
