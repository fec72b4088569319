// SPDX-License-Identifier: Apache-2.0
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "bindings.hpp"
#include "mx_core/gil.hpp"
#include "mx_core/pybind_holder.hpp"
#include "record_reader.hpp"
#include "record_writer.hpp"

namespace py = pybind11;

namespace mx::io {
namespace {

// A bytes object to be filled; PyBytes so that the payload is written once, by the read itself.
py::bytes make_bytes(uint64_t count) {
  PyObject* made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(count));
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::bytes>(made);
}

// Reads the record at `offset`, or at the position, and moves after it, in one step.
py::object read_from(RecordReader& reader, std::optional<uint64_t> offset) {
  std::unique_lock<std::mutex> lock(reader.mutex(), std::defer_lock);
  std::optional<RecordExtent> extent;
  {
    const GilRelease release;
    lock.lock();
    if (offset) reader.seek(*offset);
    extent = offset ? locate_record(reader.window(), *offset) : reader.locate_next();
  }
  if (!extent) return py::none();
  py::bytes payload = make_bytes(extent->payload);
  char* out = PyBytes_AS_STRING(payload.ptr());
  {
    const GilRelease release;
    reader.read_next(*extent, out);
    lock.unlock();
  }
  return payload;
}

py::object read_next(RecordReader& reader) { return read_from(reader, std::nullopt); }

py::object read_at(RecordReader& reader, uint64_t offset) { return read_from(reader, offset); }

py::list read_batch(RecordReader& reader, const std::vector<uint64_t>& offsets) {
  std::vector<RecordExtent> extents(offsets.size());
  {
    const GilRelease release;
    for (size_t i = 0; i < offsets.size(); ++i) {
      extents[i] = locate_record(reader.file(), offsets[i]);
    }
  }
  py::list payloads(offsets.size());
  std::vector<char*> targets(offsets.size());
  for (size_t i = 0; i < offsets.size(); ++i) {
    py::bytes payload = make_bytes(extents[i].payload);
    targets[i] = PyBytes_AS_STRING(payload.ptr());
    payloads[i] = std::move(payload);
  }
  const GilRelease release;
  for (size_t i = 0; i < extents.size(); ++i) read_record(reader.file(), extents[i], targets[i]);
  return payloads;
}

std::pair<uint64_t, uint64_t> range_of(RecordReader& reader, uint64_t part_index, uint64_t num_parts) {
  if (num_parts == 0 || part_index >= num_parts) {
    throw py::value_error("[RecordIO] expected 0 <= part_index < num_parts, got part_index " +
                          std::to_string(part_index) + " of " + std::to_string(num_parts));
  }
  const GilRelease release;
  return part_range(reader.file(), part_index, num_parts);
}

// Lets Ctrl-C end what runs without the GIL.  It takes the GIL ten times a second at most: other threads may hold it.
Pause signals() {
  using Clock = std::chrono::steady_clock;
  return [last = Clock::now()]() mutable {
    const auto now = Clock::now();
    if (now - last < std::chrono::milliseconds(100)) return;
    last = now;
    const GilAcquire acquire;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  };
}

py::array_t<int64_t> offsets_of(RecordReader& reader, uint64_t part_index, uint64_t num_parts) {
  const auto [begin, end] = range_of(reader, part_index, num_parts);
  std::vector<uint64_t> found;
  {
    const GilRelease release;
    found = record_offsets(reader.file(), begin, end, signals());
  }
  py::array_t<int64_t> offsets(static_cast<py::ssize_t>(found.size()));
  std::copy(found.begin(), found.end(), offsets.mutable_data());
  return offsets;
}

// Offsets of intact records, and (begin, end, reason) of each damaged place.
py::tuple scan(RecordReader& reader, uint64_t part_index, uint64_t num_parts) {
  const auto [begin, end] = range_of(reader, part_index, num_parts);
  Scan found;
  {
    const GilRelease release;
    found = scan_records(reader.file(), begin, end, signals());
  }
  py::list damages;
  for (const Damage& damage : found.damages) {
    damages.append(py::make_tuple(damage.begin, damage.end, damage.reason));
  }
  return py::make_tuple(found.offsets, damages);
}

void seek(RecordReader& reader, uint64_t offset) {
  const GilRelease release;
  std::lock_guard<std::mutex> lock(reader.mutex());
  reader.seek(offset);
}

uint64_t tell(RecordReader& reader) {
  const GilRelease release;
  std::lock_guard<std::mutex> lock(reader.mutex());
  return reader.position();
}

uint64_t write(RecordWriter& writer, const py::buffer& payload) {
  Py_buffer view;
  if (PyObject_GetBuffer(payload.ptr(), &view, PyBUF_SIMPLE) != 0) throw py::error_already_set();
  struct Release {
    Py_buffer& view;
    ~Release() { PyBuffer_Release(&view); }
  } guard{view};
  const GilRelease release;
  return writer.write(view.buf, static_cast<uint64_t>(view.len));
}

}  // namespace

void bind_records(py::module_& module) {
  py::class_<RecordReader>(module, "RecordReader", py::module_local())
      .def("__init__", mx::init<std::unique_ptr<RecordReader>, const std::string&>(),
           py::detail::is_new_style_constructor(), py::arg("path"))
      .def("read", &read_next)
      .def("read_at", &read_at, py::arg("offset"))
      .def("read_batch", &read_batch, py::arg("offsets"))
      .def("offsets", &offsets_of, py::arg("part_index") = 0, py::arg("num_parts") = 1)
      .def("scan", &scan, py::arg("part_index") = 0, py::arg("num_parts") = 1)
      .def("seek", &seek, py::arg("offset"))
      .def("tell", &tell);
  py::class_<RecordWriter>(module, "RecordWriter", py::module_local())
      .def("__init__", mx::init<std::unique_ptr<RecordWriter>, const std::string&, uint64_t>(),
           py::detail::is_new_style_constructor(), py::arg("path"), py::arg("kept") = 0)
      .def("write", &write, py::arg("payload"))
      .def("tell", &RecordWriter::tell, py::call_guard<GilRelease>())
      .def("written", &RecordWriter::written, py::call_guard<GilRelease>())
      .def("flush", &RecordWriter::flush, py::call_guard<GilRelease>())
      .def("close", &RecordWriter::close, py::call_guard<GilRelease>());
}

}  // namespace mx::io
