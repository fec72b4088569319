// SPDX-License-Identifier: Apache-2.0
//
// Views: where they begin, how far they reach, and that operators read and write just them.
#include "kernels.hpp"

using namespace kernels;

namespace {

using Values = std::vector<float>;

Shape sized(int64_t n) { return {1, &n}; }

Ref<Array> floats(Array& of, size_t first, int64_t n) {
  return of.view(first * sizeof(float), MX_FLOAT32, sized(n));
}

void views_begin_at_their_offset() {
  Ref<Array> whole = Array::create({MX_CPU, 0}, MX_FLOAT32, sized(6));
  Ref<Array> view = floats(*whole, 2, 3);
  Ref<Array> inner = floats(*view, 1, 2);
  CHECK(view->address() == nullptr && inner->address() == nullptr);
  auto* base = static_cast<float*>(view->allocate(true)) - 2;
  CHECK(whole->address() == base && whole->allocate() == base);
  CHECK(view->address() == base + 2 && view->offset() == 8 && view->bytes() == 12 && view->size() == 3);
  CHECK(inner->address() == base + 3 && inner->allocate() == base + 3 && inner->offset() == 12);
  CHECK(view->variable() == whole->variable() && view->shape() == sized(3));
  Ref<Array> bytes = inner->view(1, MX_UINT8, sized(7));
  CHECK(bytes->offset() == 13 && bytes->size() == 7 && bytes->dtype() == MX_UINT8);
}

void views_without_elements_have_no_address() {
  Ref<Array> none = Array::create({MX_CPU, 0}, MX_FLOAT32, sized(0));
  CHECK(none->allocate() == nullptr && none->size() == 0);
  CHECK(none->view(0, MX_FLOAT64, sized(0))->address() == nullptr);
}

void views_end_where_their_memory_does() {
  Ref<Array> whole = array({1, 2, 3, 4});
  CHECK(values(*floats(*whole, 0, 4)) == (Values{1, 2, 3, 4}));
  CHECK(floats(*whole, 4, 0)->size() == 0);
  const auto refusal = [](Array& of, size_t offset, int64_t n) {
    return test::error_of([&] { of.view(offset, MX_FLOAT32, sized(n)); }, MX_ERROR_SHAPE);
  };
  CHECK(refusal(*whole, 4, 4) ==
        "[NDArray] a view of shape (4,) (16 bytes) at byte 4 leaves its memory of 16 bytes");
  CHECK(test::has(refusal(*whole, 1, 4), "(16 bytes) at byte 1"));
  CHECK(test::has(refusal(*whole, 0, 5), "(20 bytes) at byte 0"));
  CHECK(test::has(refusal(*whole, 17, 0), "(0 bytes) at byte 17"));
  Ref<Array> half = floats(*whole, 2, 2);
  CHECK(test::has(refusal(*half, 4, 2), "(8 bytes) at byte 12"));
  refusal(*half, SIZE_MAX, 1);  // whose sum with the view's own offset would be small
  refusal(*half, SIZE_MAX - 7, 1);
}

void views_overlap_where_they_share_bytes() {
  Ref<Array> whole = array({1, 2, 3, 4});
  const auto overlap = [&](size_t a, int64_t n, size_t b, int64_t m) {
    const bool one = floats(*whole, a, n)->overlaps(*floats(*whole, b, m));
    CHECK(one == floats(*whole, b, m)->overlaps(*floats(*whole, a, n)));
    return one;
  };
  CHECK(overlap(0, 2, 0, 2) && overlap(0, 2, 1, 2) && overlap(0, 4, 1, 1));
  CHECK(!overlap(0, 2, 2, 2) && !overlap(0, 1, 3, 1));
  CHECK(!overlap(0, 0, 0, 4) && !overlap(4, 0, 0, 4));
  Ref<Array> other = array({1, 2, 3, 4});
  CHECK(!whole->overlaps(*other));
}

void operators_work_on_views(fakes::Engine& engine) {
  Ref<Call> call = kernels::call(add, 2, 2);
  Ref<Array> a = array({1, 2, 3, 4, 5}), b = array({10, 20, 30, 40, 50});
  Ref<Array> sum = array({-1, -1, -1, -1, -1});
  Ref<Array> inputs[] = {floats(*a, 3, 2), floats(*b, 1, 2)};
  Ref<Array> middle = floats(*sum, 2, 2);
  Array* in[] = {inputs[0].get(), inputs[1].get()};
  Array* out = middle.get();
  mx::nd::push(*call, in, 2, &out, nullptr, 1, nullptr, 0, false, 0, nullptr);
  engine.drain();
  CHECK(values(*sum) == (Values{-1, -1, 24, 35, -1}));
  CHECK(values(*a) == (Values{1, 2, 3, 4, 5}));
}

void results_get_their_shape_when_they_are_computed() {
  Ref<Array> result = Array::unshaped({MX_CPU, 0}, MX_FLOAT32);
  CHECK(result->pending() && result->bytes() == 0);
  result->set_shape(sized(3));
  CHECK(!result->pending() && result->bytes() == 12 && result->size() == 3 && result->shape() == sized(3));
  CHECK(result->allocate() != nullptr && result->chunk().bytes() == 12);
  CHECK(test::error_of([&] { result->set_shape(sized(4)); }, MX_ERROR) ==
        "[NDArray] a chunk with memory cannot be resized");
}

void memory_of_others_may_be_read_only(fakes::Engine& engine) {
  float memory[] = {1, 2, 3, 4};
  for (const bool read_only : {false, true}) {
    auto chunk = mx::nd::Chunk::foreign({MX_CPU, 0}, memory, sizeof memory, nullptr, [](void*) {}, read_only);
    Ref<Array> view = Array::wrap(std::move(chunk), 4, MX_FLOAT32, sized(2));
    CHECK(view->address() == memory + 1 && view->allocate(true) == memory + 1);
    CHECK(view->chunk().read_only() == read_only && values(*view) == (Values{2, 3}));
    CHECK(floats(*view, 1, 2)->chunk().read_only() == read_only);
  }
  engine.drain();
}

}  // namespace

int main() {
  fakes::Loader loader;
  views_begin_at_their_offset();
  views_without_elements_have_no_address();
  views_end_where_their_memory_does();
  views_overlap_where_they_share_bytes();
  operators_work_on_views(loader.engine_);
  results_get_their_shape_when_they_are_computed();
  memory_of_others_may_be_read_only(loader.engine_);
  loader.engine_.drain();
  CHECK(loader.storage_.alive == 0);
}
