// SPDX-License-Identifier: Apache-2.0
//
// What a worker is to exchange with others: values of keys, which become ready in another order on each worker, and what
// all of them have ready, which goes.
//
// A call takes its place in the line of its key when it is made.  Its engine operation makes it ready, and the operation
// ends when it has been exchanged.  Workers agree in rounds: each tells which keys it has ready, with what priority and
// what it is to do with them; the least of these numbers says what all have ready, and whether they are to do the same.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "operation.hpp"
#include "shared_sums.hpp"
#include "transport.hpp"

namespace mx::kv {

// What is called of a key.
struct Call {
  Kind kind = Kind::kSum;
  int64_t key = 0;
  std::string told;   // what it is, and behind 0x1f each of its details, for messages
  int64_t mark = 0;   // a number that tells calls apart: the same on all workers
  int32_t priority = 0;
  Code code = Code::kTwoBits;  // of kCodes
  float threshold = 0;         // the same
};

// A call whose memory may be used until it is complete.
class Request {
 public:
  Request(Call call, int64_t number) : call_(std::move(call)), number_(number) {}
  Request(Call call, int64_t number, const Tables& tables, const std::vector<mx_array*>& reads,
          const std::vector<mx_array*>& writes);

  const Call& call() const noexcept { return call_; }
  int64_t number() const noexcept { return number_; }
  // False: its operation never began, and there is nothing to exchange.
  bool begun() const noexcept { return done_ != nullptr; }
  const Item& item() const noexcept { return item_; }
  // Copies the first target to others, but for those of the item if `filled` says that they have it; then ends the
  // operation.  Takes the failure.  Once: false later.  Threads: any.
  bool complete(mx_failure* failure, bool filled) noexcept;

 private:
  friend class Exchange;
  void begin(mx_completion* done);

  const Call call_;
  const int64_t number_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  Tables tables_;
  std::unique_ptr<Arrays> reads_, writes_;  // what is sent; targets, and behind them the residual of kCodes
  Item item_;
  std::vector<void*> later_;
  mx_completion* done_ = nullptr;
  std::atomic<bool> complete_{false};
};

using Requests = std::vector<std::shared_ptr<Request>>;

// What a round has found.
struct Found {
  enum class What { kIdle, kWaits, kApart, kRound, kFailed };
  What what = What::kRound;
  bool step = false;     // all workers have come to a step
  bool differs = false;  // they are to do different things at the same place: at the step, or with the key of `told`
  std::string told;
  Requests requests;     // that go now, in this order
};

// Threads: any asks; one makes the rounds.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  // `failure`: why what waits has ended; a new one each time, as the engine clears a failure wherever it is shared.
  // Threads: any.  Never NULL.
  explicit Exchange(std::function<mx_failure*()> failure) : failure_(std::move(failure)) {}

  // ---- from any thread ----

  int64_t new_key();
  // Pushes the operation of a call: `reads` what it sends, `writes` its targets, and the residual of kCodes.
  // Errors: as `push` of operations.
  void push(const Tables& tables, Call call, const std::vector<mx_array*>& reads, const std::vector<mx_array*>& writes);
  // The step that comes next, as a number; 0: none.
  void set_step(int64_t mark);
  // Ends everything that waits, and what comes later.  What `run` exchanges ends with it: stop its transport, too.
  void fail();
  // Has `run` look, and return if it has nothing to do.
  void wake();
  // Whether nothing waits.
  bool idle();
  // Seconds that the oldest of what is ready has waited, and what it is; nothing: -1.
  std::pair<double, std::string> oldest();
  // Keys that a round tells of.
  int64_t width();
  // Seconds of CLOCK_MONOTONIC since when arrays are being exchanged, or 0.
  double inside() const noexcept { return inside_.load(std::memory_order_relaxed); }

  // ---- the thread that makes the rounds ----

  // Makes rounds through a transport until Python is needed, or for so many seconds.  Blocks.  When the transport fails,
  // what was under way waits for `fail`, which knows why.
  Found run(Transport& transport, double seconds);
  // Whether a worker can tell through it of all keys.
  bool fits(const Transport& transport);
  // The same in steps, for other means: waits so many seconds for something to do, and whether there is something; what
  // to tell; what the least of that says; and a pause after a round that found nothing, until there is something new.
  bool ready(double seconds);
  std::vector<int64_t> tell();
  Found decide(const std::vector<int64_t>& least);
  void rest();

 private:
  struct Line {
    int64_t taken = 0, next = 0;
    std::map<int64_t, std::shared_ptr<Request>> ready;  // by their number in the line
  };
  struct Operation;

  void ask(const std::shared_ptr<Request>& request);
  void advance(int64_t key);  // with the lock
  bool has_work() const { return !heads_.empty() || step_ != 0; }
  bool exchange_all(Transport& transport, Requests requests);
  // What is left of requests, those that are not NULL, waits for `fail`, or ends at once after it.
  void abandon(Requests left);

  const std::function<mx_failure*()> failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<int64_t, Line> lines_;
  std::map<int64_t, std::shared_ptr<Request>> heads_;  // those that are next in their lines, of keys that have theirs ready
  Requests cut_;  // what was under way when the transport failed
  int64_t keys_ = 0, width_ = 64, step_ = 0;
  bool failed_ = false, woken_ = false, fresh_ = false;
  std::atomic<double> inside_{0};
  // of the thread that makes the rounds
  bool telling_ = false;
  std::vector<int64_t> numbers_;
  double pause_ = 0;
  Requests abandoned_;  // that were under way when it failed: others may still read and write their arrays
};

}  // namespace mx::kv
