// SPDX-License-Identifier: Apache-2.0
#include "intern.h"

#include <mutex>
#include <string>
#include <unordered_set>

namespace mx::engine {
namespace {

struct Texts {
  std::mutex mutex;
  std::unordered_set<std::string> set;  // guarded by mutex; nodes never move
};

Texts& texts() {
  static auto* texts = new Texts;  // leaked: pointers into it are handed out for good
  return *texts;
}

}  // namespace

const char* intern(const char* text) noexcept {
  if (text == nullptr) return nullptr;
  try {
    Texts& all = texts();
    std::lock_guard<std::mutex> lock(all.mutex);
    return all.set.emplace(text).first->c_str();
  } catch (...) {
    return nullptr;
  }
}

void lock_interned() noexcept { texts().mutex.lock(); }
void unlock_interned() noexcept { texts().mutex.unlock(); }

}  // namespace mx::engine
