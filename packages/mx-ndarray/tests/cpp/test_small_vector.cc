// SPDX-License-Identifier: Apache-2.0
//
// Short vectors and counted references.
#include "small_vector.hpp"

#include <string>
#include <vector>

#include "mx_core/native_tests.hpp"
#include "ref.hpp"

using mx::nd::Ref;
using mx::nd::SmallVector;

namespace {

std::string grown_name(size_t i) { return "a text that is not short, " + std::to_string(i); }

void vectors_of_any_length() {
  for (const size_t n : {0, 1, 2, 3, 4, 9}) {
    SmallVector<std::string, 2> sized(n);
    CHECK(sized.size() == n && sized.empty() == (n == 0));
    CHECK(static_cast<size_t>(sized.end() - sized.begin()) == n);
    SmallVector<std::string, 2> grown;
    for (size_t i = 0; i < n; ++i) {
      sized[i] = grown_name(i);
      grown.push_back(grown_name(i));
    }
    CHECK(grown.size() == n && std::vector<std::string>(sized.begin(), sized.end()) ==
                                   std::vector<std::string>(grown.begin(), grown.end()));
    const SmallVector<std::string, 2>& fixed = grown;
    for (size_t i = 0; i < n; ++i) CHECK(fixed[i] == grown_name(i) && *(fixed.begin() + i) == fixed.data()[i]);
    sized.push_back("more");
    CHECK(sized.size() == n + 1 && sized[n] == "more" && (n == 0 || sized[n - 1] == grown_name(n - 1)));
  }
}

// Of a number of references that it keeps beyond its end.
struct Thing final : mx::nd::Counted {
  explicit Thing(int* count) : count(count) { *count = 1; }
  void retain() noexcept {
    add_reference();
    ++*count;
  }
  void release() noexcept {
    --*count;
    if (drop_reference()) delete this;
  }
  int* count;
};

void references_are_counted() {
  int count = 0;
  {
    Ref<Thing> a = Ref<Thing>::adopt(new Thing(&count));
    CHECK(a && count == 1);
    Ref<Thing> b = a, c = std::move(a);
    CHECK(!a && b.get() == c.get() && count == 2 && c->count == &count);
    c = b;
    CHECK(count == 2);
    b = nullptr;
    CHECK(!b && count == 1);
    const Ref<Thing> shared = Ref<Thing>::share(c.get());
    CHECK(count == 2 && !Ref<Thing>::share(nullptr));
    Thing* bare = c.detach();
    CHECK(!c && count == 2);
    bare->release();
    CHECK(count == 1);
    const Ref<Thing> none, copy = none;
    CHECK(!copy);
  }
  CHECK(count == 0);
}

}  // namespace

int main() {
  vectors_of_any_length();
  references_are_counted();
}
