// SPDX-License-Identifier: Apache-2.0
//
// Signs of life on a connection, by a thread that needs no GIL: a program that holds it for minutes lives all the same.
#include "mx_core/python.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace mx::kvstore_mpi {
namespace {

constexpr const char* kSigns = "mx.kvstore_mpi.signs";
// How long a peer may take no data before the connection counts as broken.
constexpr int kPatience = 10'000;  // milliseconds

// One connection.  Threads: any; its own sends the signs.
class Signs {
 public:
  Signs(int fd, std::string message, double seconds)
      : fd_(fd), message_(std::move(message)), pause_(seconds), process_(getpid()), thread_([this] { run(); }) {}
  Signs(const Signs&) = delete;
  Signs& operator=(const Signs&) = delete;

  // 0, or an errno.  Blocks while the peer takes no data.
  int send(const char* data, size_t size) {
    if (getpid() != process_) return ESHUTDOWN;
    const std::lock_guard<std::mutex> lock(sending_);
    return write(data, size);
  }

  // Blocks until nothing is being sent.
  void end() {
    if (getpid() != process_) return;
    {
      const std::lock_guard<std::mutex> lock(waking_);
      ended_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
    const std::lock_guard<std::mutex> lock(sending_);
    fd_ = -1;
  }

  // Whether this is the process that has the thread; a forked child has not.
  bool here() const { return getpid() == process_; }

 private:
  int write(const char* data, size_t size) {
    if (broken_ != 0) return broken_;
    if (fd_ < 0) return ESHUTDOWN;
    while (size > 0) {
      const ssize_t sent = ::send(fd_, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent >= 0) {
        data += sent;
        size -= static_cast<size_t>(sent);
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        pollfd wait{fd_, POLLOUT, 0};
        const int ready = poll(&wait, 1, kPatience);
        if (ready == 0 || (ready < 0 && errno != EINTR)) return broken_ = ready == 0 ? ETIMEDOUT : errno;
      } else if (errno != EINTR) {
        return broken_ = errno;  // half a message may be out: nothing can follow
      }
    }
    return 0;
  }

  void run() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);  // they are the program's
    std::unique_lock<std::mutex> lock(waking_);
    while (!wake_.wait_for(lock, std::chrono::duration<double>(pause_), [this] { return ended_; })) {
      lock.unlock();
      {
        const std::lock_guard<std::mutex> sending(sending_);
        if (write(message_.data(), message_.size()) != 0) return;  // whoever reads from it notices
      }
      lock.lock();
    }
  }

  std::mutex sending_;  // guards fd_ and broken_
  int fd_;
  int broken_ = 0;
  const std::string message_;
  const double pause_;
  const pid_t process_;
  std::mutex waking_;  // guards ended_
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;  // last: it uses the others
};

Signs* of(PyObject* capsule) { return static_cast<Signs*>(PyCapsule_GetPointer(capsule, kSigns)); }

void destroy(PyObject* capsule) {
  Signs* signs = of(capsule);
  if (signs == nullptr || !signs->here()) return;  // the thread and the locks are the parent's
  {
    const GilRelease nogil;
    signs->end();
  }
  delete signs;
}

// signs_begin(fd, message, seconds) -> a capsule; `message` is sent every so many seconds.
PyObject* signs_begin(PyObject*, PyObject* arguments) {
  int fd = -1;
  const char* message = nullptr;
  Py_ssize_t size = 0;
  double seconds = 0;
  if (PyArg_ParseTuple(arguments, "iy#d", &fd, &message, &size, &seconds) == 0) return nullptr;
  if (fd < 0 || !(seconds > 0 && seconds < 1e6)) {
    PyErr_Format(PyExc_ValueError, "[signs_begin] expected a descriptor and a positive time, got %d", fd);
    return nullptr;
  }
  try {
    auto* signs = new Signs(fd, std::string(message, static_cast<size_t>(size)), seconds);
    PyObject* capsule = PyCapsule_New(signs, kSigns, destroy);
    if (capsule == nullptr) {
      signs->end();
      delete signs;
    }
    return capsule;
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  } catch (const std::system_error& error) {
    PyErr_Format(PyExc_OSError, "[signs_begin] no thread can be started: %s", error.what());
    return nullptr;
  }
}

// signs_send(capsule, data): sends between two signs, never within one.
PyObject* signs_send(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  const char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyArg_ParseTuple(arguments, "Oy#", &capsule, &data, &size) == 0) return nullptr;
  Signs* signs = of(capsule);
  if (signs == nullptr) return nullptr;
  int status = 0;
  {
    const GilRelease nogil;
    status = signs->send(data, static_cast<size_t>(size));
  }
  if (status == 0) Py_RETURN_NONE;
  errno = status;
  return PyErr_SetFromErrno(PyExc_OSError);
}

// signs_end(capsule): no more signs, and nothing else; the descriptor may be closed then.
PyObject* signs_end(PyObject*, PyObject* capsule) {
  Signs* signs = of(capsule);
  if (signs == nullptr) return nullptr;
  {
    const GilRelease nogil;
    signs->end();
  }
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"signs_begin", signs_begin, METH_VARARGS, "Sends a message again and again, without the GIL."},
    {"signs_send", signs_send, METH_VARARGS, "Sends between two such messages."},
    {"signs_end", signs_end, METH_O, "Sends no more."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "_native", "Signs of life.", 0, methods, nullptr, nullptr, nullptr, nullptr,
};

}  // namespace
}  // namespace mx::kvstore_mpi

PyMODINIT_FUNC PyInit__native() { return PyModule_Create(&mx::kvstore_mpi::module_definition); }
