// SPDX-License-Identifier: Apache-2.0
//
// A child of a fork leaves a writer alone, also one that another thread of its parent was writing with.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "errors.hpp"
#include "mx_core/native_tests.hpp"
#include "record_writer.hpp"

using mx::io::FileError;
using mx::io::RecordWriter;

// For the thread sanitizer: a child has none of its parent's threads.
extern "C" const char* __tsan_default_options() { return "report_thread_leaks=0"; }

namespace {

template <class Body>
bool refused(const Body& body) {
  try {
    body();
  } catch (const FileError& error) {
    return std::string(error.what()).find("only the process that opened it may write") != std::string::npos;
  }
  return false;
}

// What a child does with the writer; ends the process, with 0 if all is as it should be.
void in_the_child(RecordWriter* writer) {
  ::alarm(10);  // a lock that is held for ever ends the child by a signal
  const bool kept_out = refused([&] { writer->write("b", 1); }) && refused([&] { writer->flush(); }) &&
                        refused([&] { writer->tell(); });
  if (!kept_out || writer->written() != 0) ::_exit(1);
  writer->close();
  delete writer;
  ::_exit(0);
}

void a_child_does_not_wait_for_a_thread_that_writes() {
  const std::string path = "fork.fifo";
  ::unlink(path.c_str());
  CHECK(::mkfifo(path.c_str(), 0600) == 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  auto writer = std::make_unique<RecordWriter>(path);
  const std::string record(4 << 20, 'a');  // more than the pipe takes
  std::thread other([&] { writer->write(record.data(), record.size()); });
  pollfd ready{reader, POLLIN, 0};
  CHECK(::poll(&ready, 1, 30'000) == 1);  // it is inside
  const pid_t child = ::fork();
  if (child == 0) in_the_child(writer.release());
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  std::array<char, 1 << 16> taken;
  size_t total = 0;
  while (total < record.size() + 8) {
    const ssize_t n = ::read(reader, taken.data(), taken.size());
    if (n > 0) total += static_cast<size_t>(n);
    CHECK(n > 0 || errno == EAGAIN);
    if (n <= 0) std::this_thread::yield();
  }
  other.join();
  writer->close();
  CHECK(writer->written() == total && total == record.size() + 8);
  ::close(reader);
}

}  // namespace

int main() {
  a_child_does_not_wait_for_a_thread_that_writes();
  std::puts("ok");
}
