// SPDX-License-Identifier: Apache-2.0
#include "record_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "errors.hpp"
#include "record_format.hpp"

namespace mx::io {
namespace {

constexpr size_t kBufferBytes = 1 << 20;

// Offset of the first aligned magic in [from, bytes), or `bytes` rounded down to whole words.
size_t find_magic(const char* payload, size_t from, size_t bytes) {
  const size_t limit = bytes & ~size_t{3};
  constexpr size_t kBlock = 256;
  const auto word = [&](size_t at) {
    uint32_t value;
    std::memcpy(&value, payload + at, sizeof value);
    return value;
  };
  while (from + kBlock <= limit) {
    uint32_t found = 0;  // no early exit inside a block, so that the loop vectorises
    for (size_t i = 0; i < kBlock; i += 4) found |= word(from + i) == kMagic;
    if (found != 0) break;
    from += kBlock;
  }
  while (from < limit && word(from) != kMagic) from += 4;
  return from;
}

// Bytes of the records at `written` that end within `bytes`.
size_t whole_records(const char* written, size_t bytes) {
  size_t whole = 0;
  for (size_t at = 0; at + kHeadBytes <= bytes;) {
    uint32_t head;
    std::memcpy(&head, written + at + sizeof kMagic, sizeof head);
    at += kHeadBytes + aligned(part_length(head));
    const auto part = static_cast<Part>(part_flag(head));
    if (at <= bytes && (part == Part::kWhole || part == Part::kLast)) whole = at;
  }
  return whole;
}

}  // namespace

RecordWriter::RecordWriter(const std::string& path, uint64_t kept) : path_(path), owner_(::getpid()), written_(kept) {
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (kept == 0 ? O_TRUNC : 0), 0666);
  if (descriptor_ < 0) throw FileError(path, errno, "open for writing");
  if (kept == 0) return;
  const auto end = static_cast<off_t>(kept);
  if (::ftruncate(descriptor_, end) == 0 && ::lseek(descriptor_, end, SEEK_SET) == end) return;
  const int code = errno;
  ::close(descriptor_);
  descriptor_ = -1;
  throw FileError(path, code, "open for writing behind its records");
}

RecordWriter::~RecordWriter() {
  try {
    close();
  } catch (...) {
    // A destructor cannot report; close() is where errors are raised.
  }
}

std::unique_lock<std::mutex> RecordWriter::locked() {
  std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
  if (::getpid() == owner_) lock.lock();
  return lock;
}

void RecordWriter::require_open(const std::unique_lock<std::mutex>& lock) const {
  if (descriptor_ < 0) throw FileError(path_, EBADF, "the record file is closed");
  if (!lock.owns_lock()) throw FileError(path_, EPERM, "only the process that opened it may write");
  if (failed_) throw FileError(path_, EIO, "an earlier write failed");
}

void RecordWriter::append(const void* bytes, size_t count) {
  const auto* begin = static_cast<const char*>(bytes);
  pending_.insert(pending_.end(), begin, begin + count);
}

void RecordWriter::append_part(uint32_t head, const char* payload, size_t bytes) {
  const uint32_t words[2] = {kMagic, head};
  static constexpr char kZeros[4] = {};
  append(words, sizeof words);
  append(payload, bytes);
  append(kZeros, aligned(bytes) - bytes);
}

uint64_t RecordWriter::write(const void* payload, uint64_t bytes) {
  if (bytes > kMaxPayload) {
    throw std::length_error("[RecordIO] " + path_ + ": expected a record of at most " +
                            std::to_string(kMaxPayload) + " bytes, got " + std::to_string(bytes));
  }
  const std::unique_lock<std::mutex> lock = locked();
  require_open(lock);
  const uint64_t offset = written_ + pending_.size();
  const size_t before = pending_.size();
  const auto* data = static_cast<const char*>(payload);
  const size_t limit = bytes & ~uint64_t{3};
  try {
    size_t begin = 0;
    Part part = Part::kFirst;
    for (size_t at = find_magic(data, 0, bytes); at < limit; at = find_magic(data, begin, bytes)) {
      append_part(encode_head(part, static_cast<uint32_t>(at - begin)), data + begin, at - begin);
      begin = at + sizeof kMagic;
      part = Part::kMiddle;
    }
    part = part == Part::kFirst ? Part::kWhole : Part::kLast;
    append_part(encode_head(part, static_cast<uint32_t>(bytes - begin)), data + begin, bytes - begin);
  } catch (...) {
    pending_.resize(before);
    throw;
  }
  if (pending_.size() >= kBufferBytes) drain();
  return offset;
}

void RecordWriter::drain() {
  size_t done = 0;
  while (done < pending_.size()) {
    const ssize_t put = ::write(descriptor_, pending_.data() + done, pending_.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      const int code = put < 0 ? errno : EIO;
      failed_ = true;
      written_ += whole_records(pending_.data(), done);
      pending_.clear();
      const bool cut = ::ftruncate(descriptor_, static_cast<off_t>(written_)) == 0;
      throw FileError(path_, code,
                      cut ? "write; the file was cut back to its last whole record, which ends at byte " +
                                std::to_string(written_)
                          : "write; the file may end in a partial record");
    }
    done += static_cast<size_t>(put);
  }
  written_ += done;
  pending_.clear();
}

void RecordWriter::flush() {
  const std::unique_lock<std::mutex> lock = locked();
  require_open(lock);
  drain();
}

uint64_t RecordWriter::tell() {
  const std::unique_lock<std::mutex> lock = locked();
  require_open(lock);
  return written_ + pending_.size();
}

uint64_t RecordWriter::written() {
  const std::unique_lock<std::mutex> lock = locked();
  return written_;
}

void RecordWriter::close() {
  const std::unique_lock<std::mutex> lock = locked();
  if (!lock.owns_lock()) {
    // A forked child must not write what its parent will write too, nor free what a thread was changing there.
    new (&pending_) std::vector<char>;
    failed_ = true;
  }
  if (descriptor_ < 0) return;
  struct Closer {
    int& descriptor;
    int close() {
      const int open = descriptor;
      descriptor = -1;
      return open < 0 ? 0 : ::close(open);
    }
    ~Closer() { close(); }
  } closer{descriptor_};
  if (!failed_) drain();
  // Network file systems report a full disk only here.
  if (closer.close() != 0) throw FileError(path_, errno, "close");
}

}  // namespace mx::io
