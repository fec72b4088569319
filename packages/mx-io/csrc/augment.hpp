// SPDX-License-Identifier: Apache-2.0
//
// From a decoded image to its place in a batch: geometry, colour, normalisation, planes.
#pragma once

#include "image.hpp"
#include "record_random.hpp"
#include "resample.hpp"

namespace mx::io {

// MXNet's ImageRecordIter parameters under their names; the defaults change nothing.
struct AugmentOptions {
  int64_t channels = 3, height = 0, width = 0;  // of the result
  int64_t resize = -1;                          // short side first becomes this
  float max_rotate_angle = 0, rotate = -1, max_shear_ratio = 0;
  float min_random_scale = 1, max_random_scale = 1, min_img_size = 0, max_img_size = 1e10F;
  int64_t pad = 0;
  int32_t fill_value = 255;
  bool rand_crop = false, random_resized_crop = false;
  int64_t min_crop_size = -1, max_crop_size = -1;
  float min_random_area = 1, max_random_area = 1, min_aspect_ratio = -1, max_aspect_ratio = 0;
  float brightness = 0, contrast = 0, saturation = 0, pca_noise = 0;
  int64_t random_h = 0, random_s = 0, random_l = 0;
  int32_t inter_method = 1;
  bool mirror = false, rand_mirror = false;
  float max_random_contrast = 0, max_random_illumination = 0;
  float mean[4] = {0, 0, 0, 0}, std[4] = {1, 1, 1, 1}, scale = 1;
};

// Height and width of an image before it was decoded at a smaller scale or in part; zeros when it was not.
struct WholeSize {
  int64_t height = 0, width = 0;
  bool cut = false;  // the image is what `first_crop` said
};

// A part of an image.
struct Region {
  int64_t x = 0, y = 0, width = 0, height = 0;
};

// Images of one record on its way; kept by a thread so that memory is taken once.
struct AugmentScratch {
  Image a, b;
};

// An image, and what remains to be done while it is copied out: resizing it to the options' height and width, too.
struct Augmented {
  ImageView image;
  Interpolation kernel = Interpolation::kLinear;
  bool mirrored = false;
  float contrast = 1.0F;
  float illumination = 0.0F;
};

// `image` has the options' channels and at least one pixel; the result lies in it or in `scratch`.
Augmented augment(const ImageView& image, const AugmentOptions& options, RecordRandom& random,
                  AugmentScratch& scratch, WholeSize whole = {});

// The geometry and the colours alone: what `augment` gives before it mirrors and chooses contrast and illumination.
ImageView reshape_and_colour(const ImageView& image, const AugmentOptions& options, RecordRandom& random,
                             AugmentScratch& scratch, WholeSize whole = {});

// The scale, at most 1, to which an image of this size may be reduced before `augment` so that augmentation enlarges
// nothing that it would not enlarge in the whole image.  `random` is at the beginning of the record's stream.
double least_scale(int64_t height, int64_t width, const AugmentOptions& options, RecordRandom random);

// Whether augmentation of an image of this size begins with a crop, and which.  `random` as of `least_scale`.
bool first_crop(int64_t height, int64_t width, const AugmentOptions& options, RecordRandom random, Region& region);

// Writes planes (channel, y, x): ((value - mean) * contrast + illumination) * scale / std.  A `mean_image` (channel, y,
// x) takes the place of the options' mean; it is mirrored with the image.
void write_planes(const Augmented& augmented, const AugmentOptions& options, const float* mean_image, float* out);
// The same without normalisation; values above 127 become 127 in signed ones.
void write_planes(const Augmented& augmented, const AugmentOptions& options, uint8_t* out);
void write_planes(const Augmented& augmented, const AugmentOptions& options, int8_t* out);

}  // namespace mx::io
