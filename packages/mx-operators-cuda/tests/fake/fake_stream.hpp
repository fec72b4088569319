// SPDX-License-Identifier: Apache-2.0
//
// A stream of the fake driver: a queue that a thread of its own works off, slowly if so wished.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace fake {

inline std::atomic<long> delay_us{0};

// A moment in a queue.  One mutex for all: this is a test double.
struct Point {
  bool reached = false;
};
inline std::mutex& points_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
inline std::condition_variable& points_changed() {
  static auto* changed = new std::condition_variable;
  return *changed;
}
inline void wait_for(const Point& point) {
  std::unique_lock<std::mutex> lock(points_mutex());
  points_changed().wait(lock, [&] { return point.reached; });
}
inline void reach(Point& point) {
  {
    const std::lock_guard<std::mutex> lock(points_mutex());
    point.reached = true;
  }
  points_changed().notify_all();
}

struct Device;

// What a stream was given while it was captured; every launch runs it again.
struct Graph {
  std::deque<std::function<void()>> bodies;
};

class Stream {
 public:
  explicit Stream(Device* device) : device_(device) {
    std::thread([this] { work(); }).detach();
  }
  Device* device() const { return device_; }
  void push(std::function<void()> body) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      (capture_ != nullptr ? capture_->bodies : queue_).push_back(std::move(body));
    }
    changed_.notify_one();
  }
  bool captures() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return capture_ != nullptr;
  }
  // False when it is captured already.
  bool begin_capture() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (capture_ != nullptr) return false;
    capture_ = std::make_shared<Graph>();
    return true;
  }
  // Null when it is not captured.
  std::shared_ptr<Graph> end_capture() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(capture_, nullptr);
  }

 private:
  [[noreturn]] void work() {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return !queue_.empty(); });
      const auto body = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      const long delay = delay_us.load();
      if (delay > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay));
      body();
    }
  }
  Device* const device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::shared_ptr<Graph> capture_;  // null: what comes is run
};

// The last moment it was recorded at; guarded by points_mutex.
struct Event {
  Device* device = nullptr;
  std::shared_ptr<Point> point;
};

}  // namespace fake
