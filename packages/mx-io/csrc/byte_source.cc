// SPDX-License-Identifier: Apache-2.0
#include "byte_source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "errors.hpp"

namespace mx::io {

FileError::FileError(std::string path, int code, const std::string& action)
    : std::runtime_error("[RecordIO] " + path + ": " + action + ": " + std::strerror(code)),
      path_(std::move(path)),
      code_(code) {}

File::File(const std::string& path) : path_(path) {
  // Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) throw FileError(path, errno, "open for reading");
  struct stat info {};
  const bool regular = ::fstat(descriptor_, &info) == 0 && S_ISREG(info.st_mode);
  if (!regular) {
    ::close(descriptor_);
    throw FileError(path, S_ISDIR(info.st_mode) ? EISDIR : EINVAL, "not a regular file");
  }
  size_ = static_cast<uint64_t>(info.st_size);
}

File::~File() { ::close(descriptor_); }

uint64_t File::size() {
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) throw FileError(path_, errno, "ask for the size");
  size_ = static_cast<uint64_t>(info.st_size);
  return size_;
}

bool File::holds(uint64_t offset, uint64_t count) {
  const auto fits = [&](uint64_t size) { return count <= size && offset <= size - count; };
  return fits(size_) || fits(size());
}

size_t File::fetch_some(uint64_t offset, void* out, size_t count) {
  size_t done = 0;
  while (done < count) {
    const ssize_t got = ::pread(descriptor_, static_cast<char*>(out) + done, count - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw FileError(path_, errno, "read at byte " + std::to_string(offset + done));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

void File::fetch(uint64_t offset, void* out, size_t count) {
  const size_t got = fetch_some(offset, out, count);
  if (got != count) {
    throw FormatError(path_, offset, std::to_string(count) + " more bytes",
                      std::to_string(got) + " before the end of the file");
  }
}

void Window::fetch(uint64_t offset, void* out, size_t count) {
  const bool inside = offset >= start_ && offset - start_ <= filled_;
  size_t ready = inside ? filled_ - static_cast<size_t>(offset - start_) : 0;
  if (ready < count && count <= bytes_.size() / 4) {
    filled_ = 0;  // stays empty if the read fails
    const size_t filled = file_.fetch_some(offset, bytes_.data(), bytes_.size());
    start_ = offset;
    ready = filled_ = filled;
  }
  const size_t copied = ready < count ? ready : count;
  if (copied != 0) std::memcpy(out, bytes_.data() + (offset - start_), copied);
  if (copied < count) file_.fetch(offset + copied, static_cast<char*>(out) + copied, count - copied);
}

bool Window::holds(uint64_t offset, uint64_t count) {
  if (offset >= start_ && offset - start_ <= filled_ && count <= filled_ - (offset - start_)) {
    return true;
  }
  return file_.holds(offset, count);
}

}  // namespace mx::io
