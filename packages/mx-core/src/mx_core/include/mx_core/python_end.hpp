// SPDX-License-Identifier: Apache-2.0
//
// Native code below which the interpreter ends.
//
// CPython up to 3.13 ends a thread that asks for the interpreter's lock during finalisation by unwinding
// its stack (pthread_exit); later versions let it sleep for ever.  C++ must not take part in that:
// destructors would drop references without the lock, and a noexcept function would abort the process.
// Any call into Python may ask for the lock: a function, an attribute, a comparison, a destructor, an
// allocation that starts the garbage collector.  So the guard is not at the calls but where every frame of
// C++ is unwound: an extension module that includes this header has a personality routine of its own.  It
// parks a thread that the end of the interpreter unwinds, before anything on its stack is destroyed, and
// leaves all other exceptions to the C++ library.  Plain CPython API.
#pragma once

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#include <dlfcn.h>
#include <unistd.h>
#include <unwind.h>

namespace mx {

// The process is ending and this thread may not run Python again; it goes with the process.
[[noreturn]] inline void park_forever() noexcept {
  for (;;) ::pause();
}

// Whether the interpreter is ending or has ended: Python code must not run on this thread.
inline bool interpreter_ends() noexcept {
  if (Py_IsInitialized() == 0) return true;
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

}  // namespace mx

#if PY_VERSION_HEX < 0x030E0000 && defined(__GLIBC__) && defined(__ELF__)

namespace mx::detail {

using Personality = _Unwind_Reason_Code (*)(int, _Unwind_Action, _Unwind_Exception_Class, _Unwind_Exception*,
                                            _Unwind_Context*);

// The C++ library's.
inline Personality library_personality() noexcept {
  static const auto found = [] {
    static constexpr const char* kName = "__gxx_personality_v0";
    void* next = ::dlsym(RTLD_NEXT, kName);
    return reinterpret_cast<Personality>(next != nullptr ? next : ::dlsym(RTLD_DEFAULT, kName));
  }();
  return found;
}

}  // namespace mx::detail

extern "C" {

// Where the C++ library is linked statically, this pulls in its own routine, which goes before the one below.
void __cxa_call_unexpected(void*);
[[gnu::used, gnu::visibility("hidden")]] inline void (*const mx_keeps_library_personality)(void*) =
    &__cxa_call_unexpected;

// Hidden: serves the frames of the module that it is compiled into, and no others.
[[gnu::used, gnu::visibility("hidden")]] inline _Unwind_Reason_Code __gxx_personality_v0(
    int version, _Unwind_Action actions, _Unwind_Exception_Class kind, _Unwind_Exception* exception,
    _Unwind_Context* context) {
  if ((actions & _UA_FORCE_UNWIND) != 0 && mx::interpreter_ends()) mx::park_forever();
  return mx::detail::library_personality()(version, actions, kind, exception, context);
}

}  // extern "C"

#endif
