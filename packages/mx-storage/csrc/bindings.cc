// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <atomic>
#include <map>
#include <optional>
#include <string>

#include "manager.hpp"
#include "mx_core/intern.hpp"
#include "mx_core/pybind_holder.hpp"
#include "mx_core/python_storage.hpp"
#include "random.hpp"
#include "size_class.hpp"

namespace mx::storage {
namespace {

namespace py = pybind11;

// Tags must outlive the process's last statistics.
const char* intern_tag(const char* argument, const py::object& tag) {
  const std::optional<std::string> text = text_or_none(argument, tag);
  return text.has_value() ? intern(text->c_str()) : nullptr;
}

// `BestFit`, as the environment has it, and `best_fit` are one pool.
std::string without_case(const std::string& name) {
  std::string plain;
  for (const char c : name) {
    if (c != '_') plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return plain;
}

PoolType pool_type(const std::string& given) {
  const std::string name = without_case(given);
  if (name == "pooled") return PoolType::kPooled;
  if (name == "bestfit") return PoolType::kBestFit;
  if (name == "round" || name == "pages") return PoolType::kBuckets;
  if (name == "naive") return PoolType::kNaive;
  if (name == "shared") return PoolType::kShared;
  throw Error(MX_ERROR_VALUE,
              "[StorageManager] pool: expected pooled, best_fit, round, pages, naive or shared, got '" + given + "'");
}

Rounding rounding(bool powers, size_t page, size_t large, uint32_t cutoff) {
  const auto is_power = [](size_t n) { return n != 0 && (n & (n - 1)) == 0; };
  const auto refuse = [](const std::string& what) {
    throw Error(MX_ERROR_VALUE, "[StorageManager] " + what);
  };
  if (!is_power(page) || page < kAlignment || page > size_t{1} << 20) {
    refuse("page_size: expected a power of two from 64 to 2^20, got " + std::to_string(page));
  }
  if (!is_power(large) || large < page || large > size_t{1} << 34) {
    refuse("large_size: expected a power of two from the page size to 2^34, got " + std::to_string(large));
  }
  if (cutoff < 20 || cutoff > 34) {
    refuse("linear_cutoff: expected a number from 20 to 34, got " + std::to_string(cutoff));
  }
  return {powers, page, large, cutoff};
}

using SharedManager = std::shared_ptr<Manager>;

// Memory on loan to Python, with the buffer protocol.  Threads: any.
class Block {
 public:
  Block(SharedManager manager, const mx_block& block) : manager_(std::move(manager)), block_(block) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { give_back(false); }

  void free(bool direct) {
    int buffers = 0;
    if (exports_.compare_exchange_strong(buffers, kFreed)) return give_back(direct);
    if (buffers == kFreed) return;
    throw Error(MX_ERROR_VALUE, "[Block.free] " + std::to_string(buffers) +
                                    " buffers still look at this memory; drop them first");
  }
  bool freed() const noexcept { return exports_.load() == kFreed; }
  // One more buffer; false once it is freed.
  bool lend() noexcept {
    int buffers = exports_.load();
    while (buffers != kFreed && !exports_.compare_exchange_weak(buffers, buffers + 1)) {
    }
    return buffers != kFreed;
  }
  void take_back() noexcept { exports_.fetch_sub(1); }
  const mx_block& block() const noexcept { return block_; }

 private:
  static constexpr int kFreed = -1;
  void give_back(bool direct) noexcept {
    if (given_back_) return;
    given_back_ = true;
    const mx_storage_api* table = manager_->table();
    (direct ? table->direct_free : table->free)(table->self, &block_);
  }
  const SharedManager manager_;
  const mx_block block_;
  std::atomic<int> exports_{0};  // buffers; kFreed after `free`
  bool given_back_ = false;      // by whoever freed it, then by the destructor
};

int get_buffer(PyObject* object, Py_buffer* view, int flags) try {
  auto& block = py::cast<Block&>(py::handle(object));
  if (!block.lend()) {
    PyErr_SetString(PyExc_BufferError, "this block was freed");
    return -1;
  }
  static char nothing;
  void* data = block.block().data != nullptr ? block.block().data : &nothing;
  const auto length = static_cast<Py_ssize_t>(block.block().bytes);
  if (PyBuffer_FillInfo(view, object, data, length, 0, flags) == 0) return 0;
  block.take_back();
  return -1;
} catch (...) {  // it is no block yet
  raise_current();
  return -1;
}

void release_buffer(PyObject* object, Py_buffer*) { py::cast<Block&>(py::handle(object)).take_back(); }

void set_up_buffer(PyHeapTypeObject* type) {
  type->ht_type.tp_as_buffer = &type->as_buffer;
  type->as_buffer.bf_getbuffer = get_buffer;
  type->as_buffer.bf_releasebuffer = release_buffer;
}

class PyManager {
 public:
  PyManager(std::string name, const std::string& pool, size_t page_size, size_t large_size,
            uint32_t linear_cutoff)
      : name_(std::move(name)),
        manager_(std::make_shared<Manager>(
            pool_type(pool), rounding(without_case(pool) == "round", page_size, large_size, linear_cutoff))) {}

  py::capsule capsule() const { return capsule_of(manager_, manager_->table(), MX_STORAGE_CAPSULE); }
  py::object shared_capsule() const {
    const mx_shared_api* table = manager_->shared_table();
    return table == nullptr ? py::none() : py::object(capsule_of(manager_, table, MX_SHARED_CAPSULE));
  }
  py::object sharing_capsule() const {
    const mx_shared_api* table = manager_->sharing_table();
    return table == nullptr ? py::none() : py::object(capsule_of(manager_, table, MX_SHARED_CAPSULE));
  }
  const std::string& name() const noexcept { return name_; }

  py::object alloc(const py::object& nbytes, const py::object& context, const py::object& tag) {
    const auto bytes = whole_number<size_t>("[StorageManager.alloc] nbytes", nbytes);
    const char* named = intern_tag("[StorageManager.alloc] tag", tag);
    mx_block block{};
    account(context).alloc(bytes, named, &block);
    return lent(block);
  }
  std::map<std::string, int64_t> holders(const py::object& context) {
    std::map<std::string, int64_t> held;
    account(context).each_holder([&](const char* tag, int64_t bytes) { held[tag] += bytes; });
    return held;
  }
  Account& account(const py::object& context) {
    const int32_t none = manager_->shared_table() == nullptr ? MX_CPU : MX_CPU_SHARED;
    return manager_->account(context_argument("[StorageManager] ctx", context, {none, 0}));
  }

  void listen(const py::object& capacity) {
    manager_->events().listen(whole_number<size_t>("[StorageManager.listen] capacity", capacity));
  }
  uint64_t dropped() const { return manager_->events().dropped(); }
  void forget() { manager_->events().clear(); }
  // (time in ns, device type, device id, bytes, in use, pooled, tag)
  py::list events() const {
    const std::vector<MemoryEvent> all = manager_->events().events();
    py::list list(all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const MemoryEvent& e = all[i];
      const py::object tag = e.tag == nullptr ? py::none() : py::object(decoded(e.tag));
      list[i] = py::make_tuple(e.time, e.context.type, e.context.id, e.bytes, e.in_use, e.pooled, tag);
    }
    return list;
  }

  mx_segment segment(const py::object& place) const {
    const auto address = whole_number<uintptr_t>("[StorageManager.segment] address", place);
    mx_segment found{};
    mx_error error{};
    raise_unless_ok(shared().segment(shared().self, reinterpret_cast<void*>(address), &found, &error), error);
    return found;
  }
  py::object attach(const py::object& descriptor, const py::object& nbytes, const py::object& tag) {
    const int fd = whole_number<int>("[StorageManager.attach] fd", descriptor);
    const auto bytes = whole_number<uint64_t>("[StorageManager.attach] nbytes", nbytes);
    const char* named = intern_tag("[StorageManager.attach] tag", tag);
    mx_block block{};
    mx_error error{};
    raise_unless_ok(shared().attach(shared().self, fd, bytes, named, &block, &error), error);
    return lent(block);
  }

 private:
  // Gives the memory back where there is none for its object.
  py::object lent(const mx_block& block) {
    std::unique_ptr<Block> made;
    try {
      made = std::make_unique<Block>(manager_, block);
    } catch (...) {
      manager_->table()->free(manager_->table()->self, &block);
      throw;
    }
    return new_object(std::move(made));
  }
  const mx_shared_api& shared() const {
    if (const mx_shared_api* table = manager_->shared_table()) return *table;
    throw Error(MX_ERROR_UNSUPPORTED, "[StorageManager] " + name_ + " has no memory shared between processes");
  }
  static void raise_unless_ok(int32_t status, const mx_error& error) {
    if (status != MX_OK) throw Error(static_cast<mx_status>(status), error.message);
  }
  const std::string name_;
  const SharedManager manager_;
};

class PyRandom {
 public:
  explicit PyRandom(std::string name) : name_(std::move(name)) {}
  py::capsule capsule() const {
    return capsule_of(random_, random_->table(), MX_RESOURCE_CAPSULE);
  }
  const std::string& name() const noexcept { return name_; }
  void seed(const py::object& given, const py::object& context) {
    const auto seed = whole_number<uint64_t>("[Random.seed] seed", given);
    if (context.is_none()) {
      random_->seed_all(seed);
    } else {
      random_->seed(place(context), seed);
    }
  }
  std::pair<uint64_t, uint64_t> reserve(const py::object& blocks, const py::object& context) {
    return random_->reserve(place(context), whole_number<uint64_t>("[Random.reserve] blocks", blocks));
  }

 private:
  static mx_context place(const py::object& context) { return context_argument("[Random] ctx", context, {MX_CPU, 0}); }
  const std::string name_;
  const std::shared_ptr<Random> random_ = std::make_shared<Random>();
};

std::unique_ptr<PyManager> make_manager(const py::object& name, const py::object& pool, const py::object& page_size,
                                        const py::object& large_size, const py::object& linear_cutoff) {
  return std::make_unique<PyManager>(text_of("[StorageManager] name", name), text_of("[StorageManager] pool", pool),
                                     whole_number<size_t>("[StorageManager] page_size", page_size),
                                     whole_number<size_t>("[StorageManager] large_size", large_size),
                                     whole_number<uint32_t>("[StorageManager] linear_cutoff", linear_cutoff));
}

std::unique_ptr<PyRandom> make_random(const py::object& name) {
  return std::make_unique<PyRandom>(text_of("[Random] name", name));
}

}  // namespace

PYBIND11_MODULE(_core, module, pybind11::mod_gil_not_used()) {
  module.doc() = "Memory pools and random streams.";
  translate_errors();
  const py::object none = py::none();

  py::class_<Block>(module, "Block", py::module_local(),
                    "Memory from a storage manager, readable and writable through the buffer protocol.\n\n"
                    "It goes back to the pool with the object's end, or at `free`.\n\n"
                    "Threads: any; users order what they write and read.",
                    py::custom_type_setup(set_up_buffer))
      .def_property_readonly("nbytes", [](const Block& b) { return b.block().bytes; })
      .def_property_readonly(
          "address", [](const Block& b) { return reinterpret_cast<uintptr_t>(b.block().data); })
      .def_property_readonly("freed", &Block::freed)
      .def("free", &Block::free, py::kw_only(), py::arg("direct") = false,
           "Back to the pool, or with `direct` to the system; later calls do nothing.");

  bind_storage_stats(module);

  py::class_<mx_segment>(module, "Segment", py::module_local())
      .def_readonly("fd", &mx_segment::fd)
      .def_readonly("nbytes", &mx_segment::bytes)
      .def_readonly("inode", &mx_segment::inode)
      .def_readonly("offset", &mx_segment::offset);

  py::class_<PyManager> manager(module, "StorageManager", py::module_local(),
                    "Host memory by context; `ctx` None is `cpu(0)`. Threads: any.");
  manager
      .def("__init__", mx::init(&make_manager), py::detail::is_new_style_constructor(), py::arg("name"),
           py::kw_only(), py::arg("pool") = "pooled", py::arg("page_size") = Rounding().page,
           py::arg("large_size") = Rounding().large, py::arg("linear_cutoff") = Rounding().cutoff)
      .def_property_readonly("shared_capsule", &PyManager::shared_capsule,
           "The C table `mx.shared.v1`; None where the memory is not shared.")
      .def_property_readonly("sharing_capsule", &PyManager::sharing_capsule,
           "The C table `mx.shared.v1` for large blocks of `cpu(0)`, which are shared once `segment` is asked for them; "
           "None where the pool is not `\"pooled\"`.")
      .def("listen", &PyManager::listen, py::arg("capacity"),
           "Notes every allocation and release from now on, `capacity` at most; 0 ends it.")
      .def("events", &PyManager::events,
           "What was noted, in order: time (ns of `time.monotonic_ns`), device type and id, bytes (negative: given "
           "back), bytes in use and pooled afterwards, tag.")
      .def("forget", &PyManager::forget,
           "Drops what was noted.")
      .def_property_readonly("dropped", &PyManager::dropped,
           "Events that found no room.")
      .def("segment", &PyManager::segment, py::arg("address"),
           "The segment of shared memory in which an address lies.")
      .def("attach", &PyManager::attach, py::arg("fd"), py::arg("nbytes"), py::arg("tag") = none,
           "Maps a segment of another process through a descriptor, which stays the caller's.")
      .def("alloc", &PyManager::alloc, py::arg("nbytes"), py::arg("ctx") = none,
           py::arg("tag") = none,
           "`nbytes` of memory aligned to 64, contents undefined; `tag` names the holder.");
  bind_accounts(manager);

  py::class_<PyRandom>(module, "Random", py::module_local(),
                    "Keys and counters of random streams, one stream per context. Threads: any.")
      .def("__init__", mx::init(&make_random), py::detail::is_new_style_constructor(), py::arg("name"))
      .def_property_readonly("capsule", &PyRandom::capsule,
           "The C table, `mx.resource.v1`; keeps the object alive.")
      .def_property_readonly("name", &PyRandom::name)
      .def("seed", &PyRandom::seed, py::arg("seed"), py::arg("ctx") = none,
           "Restarts the stream of `ctx`, or of every context; `seed` from 0 to 2⁶⁴ − 1.")
      .def("reserve", &PyRandom::reserve, py::arg("blocks"), py::arg("ctx") = none,
           "Key and first of `blocks` counters (of four 32-bit words each) nobody else gets.");
  mx::refuse_uninitialised(module);
}

}  // namespace mx::storage
