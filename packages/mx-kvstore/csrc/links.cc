// SPDX-License-Identifier: Apache-2.0
#include "links.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>

#include "mx_core/failure.hpp"

namespace mx::kv {
namespace {

int64_t now() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Bytes of numbers that have not passed yet.
std::vector<iovec> rest(std::vector<int64_t>& numbers, size_t passed) {
  const size_t bytes = numbers.size() * sizeof(int64_t);
  if (passed >= bytes) return {};
  return {{reinterpret_cast<char*>(numbers.data()) + passed, bytes - passed}};
}

}  // namespace

Links::Links(const std::vector<std::pair<int, int>>& connections, int64_t rank)
    : rank_(rank), workers_(static_cast<int64_t>(connections.size())), theirs_(connections.size()),
      gone_(connections.size()), come_(connections.size()) {
  if (workers_ < 1 || rank < 0 || rank >= workers_) {
    throw Error(MX_ERROR_VALUE, "[KVStore] rank: expected one of " + std::to_string(workers_) + ", got " +
                                    std::to_string(rank));
  }
  for (const auto& [terms, sums] : connections) {
    connections_[0].push_back({terms});
    connections_[1].push_back({sums});
  }
  bell_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (bell_ < 0) throw Error(MX_ERROR, std::string("[KVStore] connections of workers: ") + std::strerror(errno));
}

Links::~Links() {
  close(bell_);
  for (const std::vector<Connection>& all : connections_) {
    for (size_t worker = 0; worker < all.size(); ++worker) {
      if (static_cast<int64_t>(worker) != rank_) close(all[worker].file);
    }
  }
}

void Links::breaks(Over over, int64_t worker, const char* how) {
  if (!broken_.empty()) return;
  broken_ = std::string("the connection for ") + (over == Over::kTerms ? "terms" : "sums") + " to worker " +
            std::to_string(worker) + " broke: " + how;
}

size_t Links::receive(Over over, int64_t worker, const std::vector<iovec>& to) {
  Connection& from = connection(over, worker);
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(to.data());
  message.msg_iovlen = to.size();
  const ssize_t came = recvmsg(from.file, &message, MSG_DONTWAIT);
  if (came > 0) return static_cast<size_t>(came);
  from.readable = came < 0 && errno == EINTR;
  if (came == 0) breaks(over, worker, "it was closed");
  if (came < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) breaks(over, worker, std::strerror(errno));
  return 0;
}

size_t Links::send(Over over, int64_t worker, const std::vector<iovec>& from) {
  Connection& to = connection(over, worker);
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(from.data());
  message.msg_iovlen = from.size();
  const ssize_t went = sendmsg(to.file, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (went >= 0) return static_cast<size_t>(went);
  to.writable = errno == EINTR;
  if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) breaks(over, worker, std::strerror(errno));
  return 0;
}

bool Links::wait(const std::function<short(Over, int64_t)>& wants, int64_t nanoseconds) {
  if (failed()) return false;
  std::vector<pollfd> polled{{bell_, POLLIN, 0}};
  std::vector<Connection*> waiting{nullptr};
  for (const Over over : {Over::kTerms, Over::kSums}) {
    for (int64_t worker = 0; worker < workers_; ++worker) {
      const short events = worker == rank_ ? 0 : wants(over, worker);
      if (events == 0) continue;
      polled.push_back({connection(over, worker).file, events, 0});
      waiting.push_back(&connection(over, worker));
    }
  }
  timespec limit{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  const int found = ppoll(polled.data(), polled.size(), nanoseconds < 0 ? nullptr : &limit, nullptr);
  if (found < 0) return errno == EINTR;
  for (size_t i = 1; i < polled.size(); ++i) {
    const bool ended = (polled[i].revents & (POLLERR | POLLHUP)) != 0;  // the next call says how
    if (ended || (polled[i].revents & POLLIN) != 0) waiting[i]->readable = true;
    if (ended || (polled[i].revents & POLLOUT) != 0) waiting[i]->writable = true;
  }
  return found > 0 && !failed();
}

void Links::tell(const std::vector<int64_t>& numbers) {
  mine_ = numbers;
  for (std::vector<int64_t>& each : theirs_) each.assign(numbers.size(), 0);
  std::fill(gone_.begin(), gone_.end(), 0);
  std::fill(come_.begin(), come_.end(), 0);
}

bool Links::told(int64_t nanoseconds) {
  const int64_t end = now() + std::max<int64_t>(nanoseconds, 0);
  const size_t bytes = mine_.size() * sizeof(int64_t);
  const auto place = [](int64_t worker) { return static_cast<size_t>(worker); };
  for (;;) {
    bool complete = true;
    for (int64_t worker = 0; worker < workers_; ++worker) {
      if (worker == rank_) continue;
      size_t &gone = gone_[place(worker)], &come = come_[place(worker)];
      if (gone < bytes) gone += send(Over::kTerms, worker, rest(mine_, gone));
      if (come < bytes) come += receive(Over::kTerms, worker, rest(theirs_[place(worker)], come));
      complete = complete && gone == bytes && come == bytes;
    }
    if (failed()) return false;
    if (complete) return true;
    const int64_t left = end - now();
    if (left <= 0) return false;
    wait([&](Over over, int64_t worker) -> short {
      if (over == Over::kSums) return 0;
      const bool sends = gone_[place(worker)] < bytes, receives = come_[place(worker)] < bytes;
      return static_cast<short>((sends ? POLLOUT : 0) | (receives ? POLLIN : 0));
    }, left);
  }
}

void Links::least(std::vector<int64_t>& numbers) const {
  for (int64_t worker = 0; worker < workers_; ++worker) {
    if (worker == rank_) continue;
    const std::vector<int64_t>& theirs = theirs_[static_cast<size_t>(worker)];
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::min(numbers[i], theirs[i]);
  }
}

void Links::stop() noexcept {
  stopped_.store(true, std::memory_order_release);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(bell_, &one, sizeof one);
}

}  // namespace mx::kv
