# SPDX-License-Identifier: Apache-2.0
#
# C++ tests of a package's native part, without Python. A tests/cpp/CMakeLists.txt includes this file from
# MX_CORE_INCLUDE and is then configured with
#   cmake -S tests/cpp -B build/cpp [-DMX_CORE_INCLUDE=...] [-DMX_SANITIZE=thread|address,undefined]
#   cmake --build build/cpp && ctest --test-dir build/cpp
set(MX_SANITIZE "" CACHE STRING "thread, or address,undefined")
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
add_compile_options(-Wall -Wextra -g1) # functions and lines; types of variables would take a third of the time
if(MX_SANITIZE)
  add_compile_options(-fsanitize=${MX_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -O1)
  add_link_options(-fsanitize=${MX_SANITIZE})
endif()
find_package(Threads REQUIRED)
enable_testing()

# mx_native_library(NAME [FOLDER]): the sources in and below a folder, by default ../../csrc, but those that bind
# Python.
function(mx_native_library name)
  set(folder "${CMAKE_CURRENT_SOURCE_DIR}/../../csrc")
  if(ARGC GREATER 1)
    set(folder "${ARGV1}")
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${folder}/*.cc")
  list(FILTER sources EXCLUDE REGEX "bindings[^/]*\\.cc$")
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC ${MX_CORE_INCLUDE} "${folder}")
  target_link_libraries(${name} PUBLIC Threads::Threads)
endfunction()

# mx_native_tests(LIBRARY TIMEOUT): a program and a test for every test_*.cc; TIMEOUT in seconds.
function(mx_native_tests library timeout)
  file(GLOB sources CONFIGURE_DEPENDS "test_*.cc")
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_link_libraries(${name} ${library})
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout})
  endforeach()
endfunction()
