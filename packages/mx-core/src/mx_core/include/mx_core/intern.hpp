// SPDX-License-Identifier: Apache-2.0
//
// Texts that live as long as the process: names of operations, tags of memory.  Header-only C++17, no
// Python.  Equal texts of one package share one copy; compare texts of different packages as texts.
#pragma once

#include <pthread.h>

#include <mutex>
#include <string>
#include <unordered_set>

namespace mx {

namespace detail {

class InternedTexts {
 public:
  static InternedTexts& instance() {
    static auto* texts = new InternedTexts;  // leaked: pointers into it are handed out for good
    // Held over fork(): the child must not find it locked by a thread that it does not have.
    static const int installed = ::pthread_atfork([] { texts->mutex_.lock(); }, [] { texts->mutex_.unlock(); },
                                                  [] { texts->mutex_.unlock(); });
    static_cast<void>(installed);
    return *texts;
  }
  const char* add(const char* text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return set_.emplace(text).first->c_str();
  }

 private:
  std::mutex mutex_;
  std::unordered_set<std::string> set_;  // guarded by mutex_; nodes never move
};

}  // namespace detail

// A copy of `text` that lives as long as the process; NULL for NULL, and when memory is exhausted.
// Threads: any.
inline const char* intern(const char* text) noexcept {
  if (text == nullptr) return nullptr;
  try {
    return detail::InternedTexts::instance().add(text);
  } catch (...) {
    return nullptr;
  }
}

}  // namespace mx
