// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "errors.hpp"
#include "record_format.hpp"
#include "record_reader.hpp"
#include "record_writer.hpp"
#include "mx_core/native_tests.hpp"

using namespace mx::io;

namespace {

using Records = std::vector<std::string>;

Records read_all(const std::string& path) {
  RecordReader reader(path);
  std::lock_guard<std::mutex> lock(reader.mutex());
  Records records;
  while (auto extent = reader.locate_next()) {
    std::string payload(extent->payload, '\0');
    reader.read_next(*extent, payload.data());
    records.push_back(std::move(payload));
  }
  return records;
}

void write_all(const std::string& path, const Records& records) {
  RecordWriter writer(path);
  for (const std::string& record : records) writer.write(record.data(), record.size());
  writer.close();
}

std::string load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void store(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
}

// Payloads in which magics, whole and broken, are frequent.
Records random_records(std::mt19937& random, int count) {
  const std::string magic(reinterpret_cast<const char*>(&kMagic), sizeof kMagic);
  Records records;
  for (int i = 0; i < count; ++i) {
    std::string payload;
    for (unsigned piece = random() % 6; piece > 0; --piece) {
      payload += random() % 2 == 0 ? magic : std::string(random() % 700, static_cast<char>(random()));
    }
    records.push_back(payload);
  }
  return records;
}

void round_trip_and_parts() {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const Records records = random_records(random, static_cast<int>(random() % 20));
    write_all("trip.rec", records);
    CHECK(read_all("trip.rec") == records);
    File file("trip.rec");
    const std::vector<uint64_t> offsets = record_offsets(file, 0, file.size());
    CHECK(offsets.size() == records.size());
    const uint64_t parts = 1 + random() % 7;
    std::vector<uint64_t> joined;
    for (uint64_t part = 0; part < parts; ++part) {
      const auto [begin, end] = part_range(file, part, parts);
      for (const uint64_t offset : record_offsets(file, begin, end)) joined.push_back(offset);
    }
    CHECK(joined == offsets);
  }
}

// The payload ends where the process may not read.
void nothing_behind_a_payload_is_read() {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* memory = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  char* end = static_cast<char*>(memory) + page;
  CHECK(::mprotect(end, page, PROT_NONE) == 0);
  RecordWriter writer("edge.rec");
  Records records;
  for (size_t size = 0; size < 600; ++size) {
    writer.write(end - size, size);
    records.emplace_back(size, '\0');
  }
  writer.close();
  CHECK(read_all("edge.rec") == records);
  ::munmap(memory, 2 * page);
}

void mutated_files_end_in_an_error_or_in_records() {
  std::mt19937 random(2);
  write_all("good.rec", random_records(random, 12));
  const std::string good = load("good.rec");
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string bad = good;
    for (unsigned edit = 1 + random() % 3; edit > 0; --edit) bad[random() % bad.size()] = static_cast<char>(random());
    if (random() % 3 == 0) bad.resize(random() % bad.size());
    store("bad.rec", bad);
    try {
      size_t total = 0;
      for (const std::string& record : read_all("bad.rec")) total += record.size();
      CHECK(total <= bad.size());
      File file("bad.rec");
      part_range(file, random() % 3, 3);
    } catch (const FormatError&) {
      ++refused;
    }
  }
  CHECK(refused > 200);
}

void many_threads_read_one_file() {
  std::mt19937 random(3);
  const Records records = random_records(random, 200);
  write_all("shared.rec", records);
  File file("shared.rec");
  const std::vector<uint64_t> offsets = record_offsets(file, 0, file.size());
  for (const int count : {1, 2, 3, 7, 11}) {
    std::vector<std::thread> threads;
    for (int t = 0; t < count; ++t) {
      threads.emplace_back([&] {
        for (size_t i = 0; i < offsets.size(); ++i) {
          const RecordExtent extent = locate_record(file, offsets[i]);
          std::string payload(extent.payload, '\0');
          read_record(file, extent, payload.data());
          CHECK(payload == records[i]);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

void many_threads_write_whole_records() {
  RecordWriter writer("written.rec");
  std::vector<std::thread> threads;
  for (int t = 0; t < 7; ++t) {
    threads.emplace_back([&writer, t] {
      for (int i = 0; i < 100; ++i) {
        const std::string record(static_cast<size_t>(i * 37), static_cast<char>('a' + t));
        writer.write(record.data(), record.size());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  writer.close();
  const Records records = read_all("written.rec");
  CHECK(records.size() == 700);
  for (const std::string& record : records) CHECK(record.find_first_not_of(record[0]) == std::string::npos);
}

void a_file_cut_short_while_read_is_an_error() {
  write_all("cut.rec", {std::string(1 << 20, 'x')});
  File file("cut.rec");
  const RecordExtent extent = locate_record(file, 0);
  store("cut.rec", std::string(100, 'x'));
  std::string payload(extent.payload, '\0');
  bool refused = false;
  try {
    read_record(file, extent, payload.data());
  } catch (const FormatError&) {
    refused = true;
  }
  CHECK(refused);
}

void scans_of_mutated_files_cover_every_byte() {
  std::mt19937 random(12);
  Records records;
  for (int i = 0; i < 40; ++i) records.emplace_back(random() % 300, static_cast<char>(i));
  write_all("scan.rec", records);
  std::ifstream stream("scan.rec", std::ios::binary);
  const std::string original((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  for (int round = 0; round < 300; ++round) {
    std::string content = original.substr(0, original.size() - random() % 9);
    for (uint32_t i = 0; i < random() % 6; ++i) content[random() % content.size()] = static_cast<char>(random());
    store("scan.rec", content);
    File file("scan.rec");
    const Scan scan = scan_records(file, 0, file.size());
    size_t damage = 0;
    uint64_t place = 0;
    for (size_t i = 0; i < scan.offsets.size() || damage < scan.damages.size();) {
      const bool torn = damage < scan.damages.size() &&
                        (i == scan.offsets.size() || scan.damages[damage].begin < scan.offsets[i]);
      CHECK(place == (torn ? scan.damages[damage].begin : scan.offsets[i]));
      place = torn ? scan.damages[damage++].end : locate_record(file, scan.offsets[i++]).end;
    }
    CHECK(place == content.size());
  }
}

// Heads of records whose parts reach a long chain of parts without an end: each chain is followed to the next head only.
void a_scan_of_chains_takes_linear_time() {
  constexpr uint32_t kCount = 200'000;
  std::vector<uint32_t> words;
  for (uint32_t i = 0; i < kCount; ++i) {
    words.insert(words.end(), {kMagic, 1U << 29 | (kCount - 1 - i) * 8});
  }
  for (uint32_t i = 0; i < kCount; ++i) words.insert(words.end(), {kMagic, 2U << 29});
  store("chains.rec", {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint32_t)});
  File file("chains.rec");
  int pauses = 0;
  const Scan scan = scan_records(file, 0, file.size(), [&] { ++pauses; });  // squared, it would take many minutes
  CHECK(scan.offsets.empty() && scan.damages.size() == kCount);
  CHECK(pauses >= 3'200'000 / 65'536);
}

}  // namespace

int main() {
  round_trip_and_parts();
  nothing_behind_a_payload_is_read();
  mutated_files_end_in_an_error_or_in_records();
  many_threads_read_one_file();
  many_threads_write_whole_records();
  a_file_cut_short_while_read_is_an_error();
  scans_of_mutated_files_cover_every_byte();
  a_scan_of_chains_takes_linear_time();
  std::puts("ok");
}
