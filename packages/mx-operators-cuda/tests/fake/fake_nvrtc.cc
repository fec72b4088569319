// SPDX-License-Identifier: Apache-2.0
//
// NVRTC for the fake driver: builds a generated kernel for the processor with g++ and answers, for a
// CUBIN, where the library lies.  One library per source, kept in the folder FAKE_NVRTC_FOLDER names.
//
// FAKE_NVRTC_INCLUDE: folders for -I, of emulation.hpp and elementwise.cuh, separated by ':'.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <regex>
#include <string>
#include <vector>

namespace {

struct Program {
  std::string source, image, log;
  std::vector<std::string> exports;  // names of instances of templates, as asked for
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

enum { kOk = 0, kCompilation = 6, kNoNameExpression = 8 };

// The kernels that keep their names, and those that were asked for.
std::vector<std::string> kernels(const Program& program) {
  std::vector<std::string> found = program.exports;
  const bool block = std::regex_search(program.source, std::regex(R"(extern\s+"C"\s*\{)"));
  const std::regex pattern(R"((extern\s+"C"\s+)?__global__\s+void\s+(__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\()");
  const auto end = std::sregex_iterator();
  for (auto it = std::sregex_iterator(program.source.begin(), program.source.end(), pattern); it != end; ++it) {
    if ((*it)[1].matched || block) found.push_back((*it)[3]);
  }
  return found;
}

// Memory whose size a launch says.
std::string with_dynamic_memory(const std::string& source) {
  const std::regex pattern(R"(extern\s+__shared__\s+([\w:]+(?:\s+\w+)*?)\s+(\w+)\s*\[\s*\]\s*;)");
  return std::regex_replace(source, pattern, "$1* const $2 = static_cast<$1*>(mx::dynamic_shared());");
}

// What the fake driver asks a library for.
std::string entrance(const Program& program) {
  const bool barriers = program.source.find("__syncthreads") != std::string::npos;
  const char* run = barriers ? "run_with_barriers" : "run";
  std::string text = "\nusing FakeRun = int (*)(const unsigned*, std::size_t, void**);"
                     "\nusing FakeSizes = int (*)(std::size_t*);"
                     "\nextern \"C\" int fake_kernel(const char* name, FakeRun* run, FakeSizes* sizes) {\n";
  for (const std::string& kernel : kernels(program)) {
    text += "  if (!std::strcmp(name, \"" + kernel + "\")) {\n    *run = [](const unsigned* d, std::size_t shared, void** a) {"
            " if (!mx::take_marks(" + kernel + ", a)) return 0; mx::" + run + "(" + kernel +
            ", mx::Extents{{d[0], d[1], d[2]}, {d[3], d[4], d[5]}, shared}, a); return 1; };\n"
            "    *sizes = [](std::size_t* out) { return mx::sizes(" + kernel + ", out); };\n    return 1;\n  }\n";
  }
  return text + "  return 0;\n}\n";
}

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return kOk;
}
const char* nvrtcGetErrorString(int) { return "NVRTC_ERROR_COMPILATION"; }

int nvrtcCreateProgram(Program** program, const char* source, const char*, int, const char**, const char**) {
  *program = new Program{source, "", "", {}};
  return kOk;
}
int nvrtcDestroyProgram(Program** program) {
  delete *program;
  return kOk;
}

int nvrtcCompileProgram(Program* program, int, const char**) {
  const std::string base = setting("FAKE_NVRTC_FOLDER") + "/k" +
                           std::to_string(std::hash<std::string>()(entrance(*program) + program->source));
  program->image = "FAKE:" + base + ".so";
  if (::access((base + ".so").c_str(), R_OK) == 0) return kOk;
  static std::atomic<int> compilations{0};  // threads may compile the same source
  const std::string mine = base + "." + std::to_string(::getpid()) + "." + std::to_string(++compilations);
  std::ofstream(mine + ".cc") << "#include \"emulation.hpp\"\n" << with_dynamic_memory(program->source)
                              << entrance(*program);
  const std::string command = "g++ -std=c++17 -O0 -ffp-contract=off -shared -fPIC -w" + includes() +
                              " '" + mine + ".cc' -o '" + mine + ".so' 2> '" + mine + ".log'" +
                              " && mv '" + mine + ".so' '" + base + ".so'";
  const bool built = std::system(command.c_str()) == 0;
  std::ifstream log(mine + ".log");
  program->log.assign(std::istreambuf_iterator<char>(log), {});
  for (const char* suffix : {".cc", ".log"}) std::remove((mine + suffix).c_str());
  return built ? kOk : kCompilation;
}

int nvrtcAddNameExpression(Program* program, const char* name) {
  program->exports.push_back(name);
  return kOk;
}
int nvrtcGetLoweredName(Program* program, const char* name, const char** lowered) {
  for (const std::string& each : program->exports) {
    if (each != name) continue;
    *lowered = each.c_str();
    return kOk;
  }
  return kNoNameExpression;
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
