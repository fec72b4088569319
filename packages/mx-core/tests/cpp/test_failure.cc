// SPDX-License-Identifier: Apache-2.0
#include "mx_core/failure.hpp"

#include <thread>
#include <vector>

#include "mx_core/native_tests.hpp"

namespace {

void test_guarded_translates_what_is_thrown() {
  mx_error error{};
  CHECK(mx::guarded(&error, [] {}) == MX_OK);
  CHECK(mx::guarded(&error, [] { throw mx::Error(MX_ERROR_SHAPE, "bad shape"); }) == MX_ERROR_SHAPE);
  CHECK(error.code == MX_ERROR_SHAPE && std::string(error.message) == "bad shape");
  CHECK(mx::guarded(&error, [] { throw std::bad_alloc(); }) == MX_ERROR_MEMORY);
  CHECK(mx::guarded(&error, [] { throw std::runtime_error("other"); }) == MX_ERROR);
  CHECK(mx::guarded(&error, [] { throw 3; }) == MX_ERROR);
  CHECK(mx::guarded(nullptr, [] { throw 3; }) == MX_ERROR);
}

void test_long_messages_are_cut() {
  mx_error error{};
  mx::set_error(&error, MX_ERROR, std::string(2000, 'x').c_str());
  CHECK(std::string(error.message).size() == sizeof error.message - 1);
}

void test_failures_are_shared_between_threads() {
  mx::FailureRef first(mx::failing([] { throw mx::Error(MX_ERROR_VALUE, "why"); }));
  CHECK(first && first.get()->code == MX_ERROR_VALUE);
  CHECK(std::string(first.get()->message) == "why");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([copy = first] {
      for (int n = 0; n < 1000; ++n) {
        mx::FailureRef again = mx::FailureRef::retained(copy.get());
        CHECK(again.get()->code == MX_ERROR_VALUE);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  mx::FailureRef moved = std::move(first);
  CHECK(!first && moved);
  moved = mx::FailureRef();
  CHECK(mx::failing([] {}) == nullptr);
}

void test_a_shared_failure_takes_no_name() {
  mx_failure* exhausted = mx::detail::exhausted_failure();
  mx::name_failure(exhausted, "first", "a.py:1");
  CHECK(exhausted->operator_name[0] == '\0' && exhausted->origin[0] == '\0');
  const mx::FailureRef own(mx::make_failure(MX_ERROR, "why"));
  mx::name_failure(own.get(), "first", "a.py:1");
  mx::name_failure(own.get(), "second", "b.py:2");
  CHECK(std::string(own.get()->operator_name) == "first" && std::string(own.get()->origin) == "a.py:1");
}

void test_a_status_without_a_message_is_named() {
  const mx::FailureRef failure(mx::make_failure(MX_ERROR_VALUE, ""));
  const std::string expected = "status " + std::to_string(MX_ERROR_VALUE) + " without a message";
  CHECK(failure.get()->message == expected);
  try {
    mx::check(MX_ERROR_VALUE, mx_error{});
    CHECK(false);
  } catch (const mx::Error& error) {
    CHECK(error.code() == MX_ERROR_VALUE && error.what() == expected);
  }
}

}  // namespace

int main() {
  test_guarded_translates_what_is_thrown();
  test_long_messages_are_cut();
  test_failures_are_shared_between_threads();
  test_a_shared_failure_takes_no_name();
  test_a_status_without_a_message_is_named();
}
