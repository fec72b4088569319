// SPDX-License-Identifier: Apache-2.0
#include "plan_interrupter.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <new>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "mx_core/failure.hpp"
#include "mx_core/signal_stack.hpp"

namespace mx::core {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kKept = 16;       // differing results
constexpr char kStopped = 's', kMissed = 'm', kLeft = 'l';  // what the handler says

// Bytes between a thread and a signal handler.
class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_, O_NONBLOCK | O_CLOEXEC) != 0) {
      throw Error(MX_ERROR, "no pipe can be made: " + std::string(std::strerror(errno)));
    }
  }
  ~Pipe() {
    for (const int end : ends_) ::close(end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  // Both are safe in signal handlers.
  void put(char byte) const {
    while (::write(ends_[1], &byte, 1) < 0 && errno == EINTR) {
    }
  }
  // 0 where nothing comes in time.
  char take(int milliseconds) const {
    pollfd waited{ends_[0], POLLIN, 0};
    const Clock::time_point end = Clock::now() + std::chrono::milliseconds(milliseconds);
    int left = milliseconds;
    while (::poll(&waited, 1, left) < 0 && errno == EINTR) {
      left = static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count());
      if (left < 0) left = 0;
    }
    char byte = 0;
    return ::read(ends_[0], &byte, 1) == 1 ? byte : '\0';
  }
  void drain() const {
    while (take(0) != 0) {
    }
  }

 private:
  int ends_[2];
};

// For `poll`, whose time is an int.
int milliseconds_of(std::chrono::milliseconds time) {
  return static_cast<int>(std::min<int64_t>(time.count(), std::numeric_limits<int>::max()));
}

// What the handler and the two threads share.
struct Session {
  Pipe stopped, released;
  int patience = 0;  // milliseconds
  std::atomic<bool> running{false}, was_stopped{false};
  std::atomic<pthread_t> thread{};
};

std::atomic<Session*> current{nullptr};

void handle(int) {
  Session* session = current.load(std::memory_order_acquire);
  if (session == nullptr || ::pthread_equal(session->thread.load(), ::pthread_self()) == 0) return;
  const int kept = errno;
  if (session->running.load(std::memory_order_relaxed)) {
    session->was_stopped.store(true, std::memory_order_relaxed);
    session->stopped.put(kStopped);
    session->released.take(session->patience);
    session->stopped.put(kLeft);
  } else {
    session->stopped.put(kMissed);
  }
  errno = kept;
}

class Handler {
 public:
  explicit Handler(Session* session) {
    struct sigaction action {};
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGURG, &action, &before_);
    current.store(session, std::memory_order_release);
  }
  ~Handler() {
    current.store(nullptr, std::memory_order_release);
    ::sigaction(SIGURG, &before_, nullptr);
  }
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

 private:
  struct sigaction before_ {};
};

using Contents = std::vector<std::vector<uint8_t>>;

// Runs on one set of arrays, again and again.
class Repeated {
 public:
  Repeated(const mx_plan& plan, const Tensors& tensors, const RunOptions& options)
      : tensors_(tensors),
        none_(tensors.outputs.size()),
        runner_(plan, std::vector<uint8_t>(tensors.outputs.size(), MX_REQ_WRITE), options) {
    before_ = contents();
    prepare();
    runner_.run(tensors_, none_);
    alone_ = contents();
    for (size_t i = 0; i < tensors_.inputs.size(); ++i) written_.push_back(alone_[i] != before_[i]);
  }

  void prepare() {
    for (size_t i = 0; i < written_.size(); ++i)
      if (written_[i]) std::memcpy(tensors_.inputs[i].data, before_[i].data(), before_[i].size());
    for (const mx_tensor& output : tensors_.outputs)
      if (output.bytes != 0) std::memset(output.data, 0x4d, output.bytes);
  }
  void run() { runner_.run(tensors_, none_); }

  void compare(bool interrupted, std::vector<Differing>& differing) const {
    if (differing.size() >= kKept || is_as_alone()) return;
    differing.push_back({interrupted, contents()});
  }

 private:
  template <class Use>
  void each(Use use) const {
    for (const auto* tensors : {&tensors_.inputs, &tensors_.outputs})
      for (const mx_tensor& tensor : *tensors) use(static_cast<const uint8_t*>(tensor.data), tensor.bytes);
  }
  Contents contents() const {
    Contents made;
    each([&](const uint8_t* data, size_t bytes) { made.emplace_back(data, data + bytes); });
    return made;
  }
  bool is_as_alone() const {
    bool same = true;
    size_t i = 0;
    each([&](const uint8_t* data, size_t bytes) {
      same = same && (bytes == 0 || std::memcmp(data, alone_[i].data(), bytes) == 0);
      ++i;
    });
    return same;
  }

  const Tensors& tensors_;
  const DynamicOutputs none_;
  PlanRunner runner_;
  Contents before_, alone_;
  std::vector<bool> written_;
};

// The thread whose runs are stopped.
class Victim {
 public:
  Victim(Repeated& runs, Session& session) : runs_(runs), session_(session), thread_([this] { work(); }) {}
  ~Victim() { end(); }
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;

  void interrupt() { ::pthread_kill(thread_.native_handle(), SIGURG); }
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // The differing results; throws what a run has thrown.
  std::vector<Differing> result() {
    end();
    if (error_) std::rethrow_exception(error_);
    return std::move(differing_);
  }

 private:
  void work() {
    const SignalStack stack;
    session_.thread.store(::pthread_self());
    session_.stopped.put(kMissed);  // it can be stopped from now on
    try {
      while (!ended_.load(std::memory_order_relaxed)) {
        runs_.prepare();
        session_.running.store(true);
        runs_.run();
        session_.running.store(false);
        if (session_.was_stopped.exchange(false)) runs_.compare(true, differing_);
      }
    } catch (...) {
      session_.running.store(false);
      error_ = std::current_exception();
      failed_.store(true, std::memory_order_release);
      session_.stopped.put(kMissed);  // nobody waits for this thread any more
    }
  }
  void end() {
    ended_.store(true);
    if (thread_.joinable()) thread_.join();
  }

  Repeated& runs_;
  Session& session_;
  std::atomic<bool> ended_{false}, failed_{false};
  std::exception_ptr error_;
  std::vector<Differing> differing_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace

Interrupted interrupt_plan(const mx_plan& plan, const Tensors& stopped, const Tensors& between,
                           const RunOptions& options, const InterruptOptions& interrupts) {
  static std::mutex mutex;
  static const int forks = ::pthread_atfork(nullptr, nullptr, [] { new (&mutex) std::mutex; });
  static_cast<void>(forks);  // the thread that had it is the parent's
  const std::lock_guard<std::mutex> only(mutex);
  Repeated first(plan, stopped, options), second(plan, between, options);
  Session session;
  session.patience = milliseconds_of(interrupts.patience);
  const Handler handler(&session);
  Victim victim(first, session);
  Interrupted result;
  const auto end = Clock::now() + interrupts.limit;
  const int longest = milliseconds_of(interrupts.limit + std::chrono::milliseconds(1));
  session.stopped.take(longest);
  for (uint32_t tries = 0; result.rounds < interrupts.rounds && Clock::now() < end && !victim.failed(); ++tries) {
    // far apart enough for the run to get on, and never in step with it
    std::this_thread::sleep_for(std::chrono::microseconds(1 + tries * 7 % 40));
    second.prepare();
    victim.interrupt();
    if (session.stopped.take(longest) != kStopped) continue;
    second.run();
    session.released.put(kStopped);
    if (session.stopped.take(longest) != kLeft) break;
    session.released.drain();  // it may have left by itself
    second.compare(false, result.differing);
    ++result.rounds;
  }
  std::vector<Differing> more = victim.result();
  for (Differing& one : more)
    if (result.differing.size() < 2 * kKept) result.differing.push_back(std::move(one));
  return result;
}

}  // namespace mx::core
