// SPDX-License-Identifier: Apache-2.0
//
// NVRTC for the fake driver: builds a generated kernel for the processor with g++ and answers, for a
// CUBIN, where the library lies.  One library per source, kept in the folder FAKE_NVRTC_FOLDER names.
//
// FAKE_NVRTC_INCLUDE: folders for -I, of emulation.hpp and elementwise.cuh, separated by ':'.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>

namespace {

struct Program {
  std::string source, kernel, image, log;
};

std::string setting(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

std::string includes() {
  std::string flags, all = setting("FAKE_NVRTC_INCLUDE") + ":";
  for (size_t begin = 0, end; (end = all.find(':', begin)) != std::string::npos; begin = end + 1)
    if (end > begin) flags += " '-I" + all.substr(begin, end - begin) + "'";
  return flags;
}

void answer(const std::string& text, char* out) { std::memcpy(out, text.c_str(), text.size() + 1); }

enum { kOk = 0, kCompilation = 6 };

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return kOk;
}
const char* nvrtcGetErrorString(int) { return "NVRTC_ERROR_COMPILATION"; }

int nvrtcCreateProgram(Program** program, const char* source, const char* name, int, const char**,
                       const char**) {
  const std::string file = name;
  *program = new Program{source, file.substr(0, file.size() - 3), "", ""};  // without .cu
  return kOk;
}
int nvrtcDestroyProgram(Program** program) {
  delete *program;
  return kOk;
}

int nvrtcCompileProgram(Program* program, int, const char**) {
  const std::string base = setting("FAKE_NVRTC_FOLDER") + "/k" +
                           std::to_string(std::hash<std::string>()(program->source));
  program->image = "FAKE:" + base + ".so";
  if (::access((base + ".so").c_str(), R_OK) == 0) return kOk;
  const bool barriers = program->source.find("__syncthreads") != std::string::npos;
  const char* run = barriers ? "run_with_barriers" : "run";
  const std::string mine = base + "." + std::to_string(::getpid());
  std::ofstream(mine + ".cc")
      << "#include \"emulation.hpp\"\n" << program->source
      << "\nextern \"C\" int fake_run(unsigned blocks, unsigned threads, void** arguments) {"
      << " if (!mx::take_marks(" << program->kernel << ", arguments)) return 0;"
      << " mx::" << run << "(" << program->kernel << ", blocks, threads, arguments); return 1; }"
      << "\nextern \"C\" int fake_sizes(std::size_t* out) { return mx::sizes(" << program->kernel
      << ", out); }\n";
  const std::string command = "g++ -std=c++17 -O0 -ffp-contract=off -shared -fPIC -w" + includes() +
                              " '" + mine + ".cc' -o '" + mine + ".so' 2> '" + mine + ".log'" +
                              " && mv '" + mine + ".so' '" + base + ".so'";
  const bool built = std::system(command.c_str()) == 0;
  std::ifstream log(mine + ".log");
  program->log.assign(std::istreambuf_iterator<char>(log), {});
  for (const char* suffix : {".cc", ".log"}) std::remove((mine + suffix).c_str());
  return built ? kOk : kCompilation;
}

int nvrtcGetProgramLogSize(Program* program, size_t* size) {
  *size = program->log.size() + 1;
  return kOk;
}
int nvrtcGetProgramLog(Program* program, char* log) {
  answer(program->log, log);
  return kOk;
}
int nvrtcGetCUBINSize(Program* program, size_t* size) {
  *size = program->image.size() + 1;
  return kOk;
}
int nvrtcGetCUBIN(Program* program, char* code) {
  answer(program->image, code);
  return kOk;
}

}  // extern "C"
