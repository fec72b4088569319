// SPDX-License-Identifier: Apache-2.0
#include "exchange.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "mx_core/types.hpp"

namespace mx::kv {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Numbers of a round before those of keys: whether a step waits, its mark, the negative of that, -keys.
constexpr int64_t kHead = 4;
// Numbers of a key: its priority; the mark of its call, and the negative of that.
constexpr int64_t kPerKey = 3;
// The priority of a key that is not ready.
constexpr int64_t kAbsent = -(int64_t{1} << 62);
// Bytes of one round, after which what has become ready meanwhile is looked at.
constexpr size_t kRound = 32 << 20;
// Seconds between two rounds that found nothing.
constexpr double kPause = 5e-4, kLongest = 5e-3;

bool overlap(const void* a, const void* b, size_t bytes) noexcept {
  const auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return x < y + bytes && y < x + bytes;
}

Clock::duration of_seconds(double seconds) { return std::chrono::duration_cast<Clock::duration>(Seconds(seconds)); }

char* memory_of(const Arrays& arrays, size_t i) {
  const mx_tensor tensor = arrays.tensor(i, true);
  if (mx_on_host(tensor.context) == 0) throw Error(MX_ERROR_UNSUPPORTED, "[KVStore] an array is not in main memory");
  return static_cast<char*>(tensor.data);
}

}  // namespace

Request::Request(Call call, int64_t number, const Tables& tables, const std::vector<mx_array*>& reads,
                 const std::vector<mx_array*>& writes)
    : call_(std::move(call)), number_(number), tables_(tables),
      reads_(std::make_unique<Arrays>(tables.invoke, reads)), writes_(std::make_unique<Arrays>(tables.invoke, writes)) {}

void Request::begin(mx_completion* done) {
  since_ = Clock::now();
  const size_t targets = writes_->size() - (call_.kind == Kind::kCodes ? 1 : 0);
  const mx_tensor first = writes_->tensor(0, false);
  item_.kind = call_.kind;
  item_.dtype = first.dtype;
  item_.bytes = first.bytes;
  item_.code = call_.code;
  item_.threshold = call_.threshold;
  if (reads_->size() > 0) item_.send = memory_of(*reads_, 0);
  std::vector<void*> all;
  for (size_t i = 0; i < targets; ++i) all.push_back(memory_of(*writes_, i));
  if (call_.kind == Kind::kCodes) item_.residual = reinterpret_cast<float*>(memory_of(*writes_, targets));
  bool apart = true;  // views of one array may lie askew
  for (size_t i = 0; i < all.size(); ++i) {
    apart = apart && (item_.send == all[i] || item_.send == nullptr || !overlap(item_.send, all[i], item_.bytes));
    for (size_t j = 0; j < i; ++j) apart = apart && !overlap(all[i], all[j], item_.bytes);
  }
  const size_t at_once = apart ? all.size() : 1;
  item_.targets.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(at_once));
  later_.assign(all.begin() + static_cast<std::ptrdiff_t>(at_once), all.end());
  done_ = done;
}

bool Request::complete(mx_failure* failure, bool filled) noexcept {
  if (done_ == nullptr || complete_.exchange(true)) {
    if (failure != nullptr) failure->release(failure);
    return false;
  }
  if (failure == nullptr && item_.bytes > 0) {
    for (size_t i = 1; i < item_.targets.size() && !filled; ++i) {
      std::memmove(item_.targets[i], item_.targets[0], item_.bytes);
    }
    for (void* to : later_) std::memmove(to, item_.targets[0], item_.bytes);
  }
  tables_.engine->complete(tables_.engine->self, done_, failure);
  return true;
}

// What the engine has of a call.
struct Exchange::Operation {
  std::shared_ptr<Exchange> exchange;
  std::shared_ptr<Request> request;

  static void start(void* argument, const mx_run_context*, mx_completion* done) {
    const auto operation = static_cast<Operation*>(argument);
    const std::shared_ptr<Exchange> exchange = operation->exchange;  // it may be destroyed meanwhile
    const std::shared_ptr<Request> request = operation->request;
    mx_failure* failure = failing([&] {
      request->begin(done);
      exchange->ask(request);
    });
    if (failure == nullptr) return;
    if (request->begun()) {
      request->complete(failure, false);
    } else {
      const mx_engine_api* engine = request->tables_.engine;
      engine->complete(engine->self, done, failure);
    }
  }

  static void destroy(void* argument) {
    const std::unique_ptr<Operation> operation(static_cast<Operation*>(argument));
    if (operation->request->begun()) return;
    // What it reads has failed.  Others must hear of that, and what was called later takes its turn.
    const Request& lost = *operation->request;
    Call call = lost.call();
    call.told.insert(std::min(call.told.find('\x1f'), call.told.size()),
                     ", which could not begin, since what it reads has failed");
    call.mark = 1 + (call.mark >> 1);
    mx_failure* failure = failing(
        [&] { operation->exchange->ask(std::make_shared<Request>(std::move(call), lost.number())); });
    if (failure != nullptr) failure->release(failure);  // no memory: others wait until their time is over
  }
};

int64_t Exchange::new_key() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return keys_++;
}

void Exchange::push(const Tables& tables, Call call, const std::vector<mx_array*>& reads,
                    const std::vector<mx_array*>& writes) {
  const mx_engine_api* engine = tables.engine;
  const int32_t priority = call.priority;
  auto operation = std::make_unique<Operation>();
  operation->exchange = shared_from_this();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const int64_t number = lines_[call.key].taken++;
    operation->request = std::make_shared<Request>(std::move(call), number, tables, reads, writes);
  }
  const std::vector<mx_variable*> written = variables(*operation->request->writes_, {});
  const std::vector<mx_variable*> read = variables(*operation->request->reads_, written);
  mx_operation pushed{};
  pushed.size = sizeof pushed;
  pushed.context = {MX_CPU, 0};
  pushed.property = MX_FN_ASYNC;
  pushed.priority = priority;
  const bool first = operation->request->call().kind == Kind::kFirst;
  pushed.flags = MX_PUSH_INLINE;  // it only gets in line
  pushed.name = engine->intern(engine->self, first ? "KVStore.init" : "KVStore.push");
  pushed.reads = read.data();
  pushed.n_reads = static_cast<uint32_t>(read.size());
  pushed.writes = written.data();
  pushed.n_writes = static_cast<uint32_t>(written.size());
  pushed.run_async = Operation::start;
  pushed.argument = operation.release();
  pushed.destroy = Operation::destroy;
  mx_failure* failure = nullptr;
  mx_error error{};
  check(engine->push(engine->self, &pushed, &failure, &error), error);
  if (failure != nullptr) throw FailureError{FailureRef(failure)};
}

void Exchange::ask(const std::shared_ptr<Request>& request) {
  bool failed = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    failed = failed_;
    if (!failed) {
      const int64_t key = request->call().key;
      lines_[key].ready[request->number()] = request;
      advance(key);
    }
  }
  if (failed) request->complete(failure_(), false);
}

void Exchange::advance(int64_t key) {
  Line& line = lines_[key];
  const auto found = line.ready.find(line.next);
  if (found == line.ready.end()) {
    heads_.erase(key);
    return;
  }
  std::shared_ptr<Request>& head = heads_[key];
  if (head == found->second) return;
  head = found->second;
  head->since_ = Clock::now();  // others have not let it wait before
  fresh_ = true;
  changed_.notify_all();
}

void Exchange::set_step(int64_t mark) {
  const std::lock_guard<std::mutex> lock(mutex_);
  step_ = mark;
  fresh_ = fresh_ || mark != 0;
  changed_.notify_all();
}

void Exchange::wake() {
  const std::lock_guard<std::mutex> lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

void Exchange::fail() {
  Requests ended;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    failed_ = true;
    ended.swap(cut_);
    heads_.clear();
    for (auto& [key, line] : lines_) {
      for (auto& [number, request] : line.ready) ended.push_back(request);
      line.ready.clear();
    }
    changed_.notify_all();
  }
  for (const std::shared_ptr<Request>& request : ended) {
    if (request->begun()) request->complete(failure_(), false);
  }
}

bool Exchange::idle() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !has_work();
}

std::pair<double, std::string> Exchange::oldest() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Request* found = nullptr;
  for (const auto& [key, head] : heads_) {
    if (found == nullptr || head->since_ < found->since_) found = head.get();
  }
  if (found == nullptr) return {-1, ""};
  return {Seconds(Clock::now() - found->since_).count(), found->call().told};
}

int64_t Exchange::width() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return width_;
}

bool Exchange::fits(const Transport& transport) {
  return static_cast<size_t>(kHead + kPerKey * width()) <= transport.numbers();
}

std::vector<int64_t> Exchange::tell() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<int64_t> mine(static_cast<size_t>(kHead + kPerKey * width_), kAbsent);
  mine[0] = step_ != 0 ? 1 : 0;
  mine[1] = step_;
  mine[2] = -step_;
  mine[3] = -keys_;
  for (const auto& [key, head] : heads_) {
    if (key >= width_) break;
    int64_t* numbers = mine.data() + kHead + kPerKey * key;
    numbers[0] = head->call().priority;
    numbers[1] = head->call().mark;
    numbers[2] = -head->call().mark;
  }
  fresh_ = false;
  return mine;
}

Found Exchange::decide(const std::vector<int64_t>& least) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Found found;
  if (failed_) {
    found.what = Found::What::kFailed;
    return found;
  }
  const int64_t told = (static_cast<int64_t>(least.size()) - kHead) / kPerKey;
  while (width_ < -least[3]) width_ *= 2;  // of the worker that has most; all see the same number
  found.step = least[0] == 1;
  if (found.step && least[1] != -least[2]) {
    found.differs = true;
    return found;
  }
  std::vector<std::pair<int64_t, int64_t>> order;  // -priority, key
  for (int64_t key = 0; key < told; ++key) {
    const int64_t* numbers = least.data() + kHead + kPerKey * key;
    if (numbers[0] == kAbsent) continue;
    if (numbers[1] != -numbers[2]) {
      found.step = false;
      found.differs = true;
      found.told = heads_.at(key)->call().told;
      return found;
    }
    order.emplace_back(-numbers[0], key);
  }
  if (order.empty() && !found.step) found.what = Found::What::kApart;
  if (found.what != Found::What::kApart) pause_ = 0;
  std::sort(order.begin(), order.end());
  size_t size = 0;
  for (const auto& [priority, key] : order) {
    if (size > kRound) break;
    Line& line = lines_[key];
    const auto place = line.ready.find(line.next++);
    const std::shared_ptr<Request> request = std::move(place->second);
    line.ready.erase(place);
    advance(key);
    if (!request->begun()) continue;  // it has failed on all workers
    size += request->item().bytes;
    found.requests.push_back(request);
  }
  return found;
}

bool Exchange::ready(double seconds) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, of_seconds(std::max(seconds, 0.0)), [&] { return has_work() || woken_ || failed_; });
  woken_ = false;
  return has_work() && !failed_;
}

void Exchange::rest() {
  std::unique_lock<std::mutex> lock(mutex_);
  pause_ = std::min(std::max(2 * pause_, kPause), kLongest);
  changed_.wait_for(lock, of_seconds(pause_), [&] { return fresh_ || failed_; });
}

Found Exchange::run(Transport& transport, double seconds) {
  const Clock::time_point end = Clock::now() + of_seconds(seconds);
  Found found;
  for (;;) {
    if (!telling_) {
      if (!ready(Seconds(end - Clock::now()).count())) {
        found.what = transport.failed() ? Found::What::kFailed : Found::What::kIdle;
        return found;
      }
      numbers_ = tell();
      transport.tell(numbers_);
      telling_ = true;
    }
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(end - Clock::now()).count();
    if (!transport.told(left)) {
      found.what = transport.failed() ? Found::What::kFailed : Found::What::kWaits;
      return found;
    }
    telling_ = false;
    transport.least(numbers_);
    found = decide(numbers_);
    if (found.what == Found::What::kFailed || found.differs) return found;
    if (found.what == Found::What::kApart) {
      rest();
      if (Clock::now() >= end) return found;
      continue;
    }
    if (!found.requests.empty() && !exchange_all(transport, std::move(found.requests))) {
      found.what = Found::What::kFailed;
      return found;
    }
    found.requests.clear();
    if (found.step || !fits(transport)) return found;
  }
}

bool Exchange::exchange_all(Transport& transport, Requests requests) {
  bool complete = false;
  try {
    abandoned_.reserve(abandoned_.size() + requests.size());
    std::vector<Item> items;
    for (const std::shared_ptr<Request>& request : requests) items.push_back(request->item());
    inside_.store(Seconds(Clock::now().time_since_epoch()).count(), std::memory_order_relaxed);
    complete = transport.exchange(items, [&](size_t i) {
      requests[i]->complete(nullptr, true);
      requests[i].reset();  // its arrays need not live on
    });
  } catch (...) {
    abandon(std::move(requests));
    throw;
  }
  abandon(std::move(requests));
  return complete;
}

// Needs no memory, of which there may be none.
void Exchange::abandon(Requests left) {
  inside_.store(0, std::memory_order_relaxed);
  left.erase(std::remove(left.begin(), left.end(), nullptr), left.end());
  const bool begun = abandoned_.capacity() - abandoned_.size() >= left.size();  // else nothing was exchanged
  if (begun) abandoned_.insert(abandoned_.end(), left.begin(), left.end());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failed_) cut_.swap(left);
  }
  for (const std::shared_ptr<Request>& request : left) request->complete(failure_(), false);
}

}  // namespace mx::kv
