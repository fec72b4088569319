// SPDX-License-Identifier: Apache-2.0
//
// How many threads a kernel may use: what the environment says, or one for each core the process may use.
#include "threads.hpp"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "mx_core/native_tests.hpp"

namespace {

// In a process of its own, since it is asked once.
template <class Prepare>
int threads_after(Prepare prepare) {
  const pid_t child = ::fork();
  CHECK(child >= 0);
  if (child == 0) {
    prepare();
    const uint32_t first = mx::nd::parallel_threads();
    ::setenv("MXNET_OMP_MAX_THREADS", "7", 1);
    ::_exit(mx::nd::parallel_threads() == first && first < 255 ? static_cast<int>(first) : 255);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

int threads_with(const char* own, const char* openmp) {
  return threads_after([=] {
    if (own != nullptr) ::setenv("MXNET_OMP_MAX_THREADS", own, 1);
    if (openmp != nullptr) ::setenv("OMP_NUM_THREADS", openmp, 1);
  });
}

int cores() {
  cpu_set_t cores;
  CHECK(::sched_getaffinity(0, sizeof cores, &cores) == 0);
  return CPU_COUNT(&cores);
}

void the_environment_decides() {
  CHECK(threads_with("5", nullptr) == 5 && threads_with(nullptr, "3") == 3 && threads_with("5", "3") == 5);
  CHECK(threads_with("1", "3") == 1 && threads_with("0", "3") == 3 && threads_with("-2", "3") == 3);
  CHECK(threads_with("many", "3") == 3);
  CHECK(threads_with("many", "0") == cores());
}

void otherwise_the_cores_of_the_process() {
  CHECK(threads_with(nullptr, nullptr) == cores());
  const int one = threads_after([] {
    cpu_set_t all, first;
    CHECK(::sched_getaffinity(0, sizeof all, &all) == 0);
    CPU_ZERO(&first);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&first) == 0; ++i) {
      if (CPU_ISSET(i, &all)) CPU_SET(i, &first);
    }
    CHECK(::sched_setaffinity(0, sizeof first, &first) == 0);
  });
  CHECK(one == 1);
}

}  // namespace

int main() {
  ::unsetenv("MXNET_OMP_MAX_THREADS");
  ::unsetenv("OMP_NUM_THREADS");
  the_environment_decides();
  otherwise_the_cores_of_the_process();
}
