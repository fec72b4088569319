// SPDX-License-Identifier: Apache-2.0
#include "bindings_call_sites.hpp"

#include <algorithm>

namespace mx::nd {
namespace {

// What a word of a key says about an argument; values follow in words of their own.
enum class Tag : uint64_t {
  kArray, kNone, kTrue, kFalse, kInteger, kFloat, kText, kTuple, kList, kContext, kAddress, kAnyNumber
};

constexpr Py_ssize_t kLongestText = 256;  // bytes; longer ones are parsed every time
constexpr int kDeepest = 4;               // tuples in tuples

void add(Tag tag, uint64_t length, CacheKey& key) { key.add(static_cast<uint64_t>(tag) | length << 8); }

void add_bits(double number, CacheKey& key) {
  uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  key.add(bits);
}

bool add_text(PyObject* text, CacheKey& key) {
  const auto kind = static_cast<Py_ssize_t>(PyUnicode_KIND(text));
  const Py_ssize_t bytes = PyUnicode_GET_LENGTH(text) * kind;
  if (bytes > kLongestText) return false;
  add(Tag::kText, static_cast<uint64_t>(bytes) << 4 | static_cast<uint64_t>(kind), key);
  const char* data = static_cast<const char*>(PyUnicode_DATA(text));
  for (Py_ssize_t i = 0; i < bytes; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, data + i, static_cast<size_t>(std::min<Py_ssize_t>(8, bytes - i)));
    key.add(word);
  }
  return true;
}

// Types of NumPy and Python, and NumPy's dtypes, are themselves whatever happens.
bool is_named_by_address(PyObject* value) noexcept {
  return PyType_Check(value) != 0 ||
         PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(
                                       py::detail::npy_api::get().PyArrayDescr_Type_)) != 0;
}

bool add_value(PyObject* value, CacheKey& key, int depth, std::vector<py::object>* by_address);

// Adds the items of a tuple or a list.
bool add_items(Tag tag, PyObject* value, CacheKey& key, int depth, std::vector<py::object>* by_address) {
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(value);
  add(tag, static_cast<uint64_t>(n), key);
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (!add_value(PySequence_Fast_GET_ITEM(value, i), key, depth + 1, by_address)) return false;
  }
  return true;
}

// Adds an argument; false when calls with such a value are not remembered.  Two values with equal words
// are parsed alike: 1, 1.0 and True differ, as do 0.0 and -0.0.
bool add_value(PyObject* value, CacheKey& key, int depth, std::vector<py::object>* by_address) {
  if (is_array(value)) {
    add(Tag::kArray, 0, key);
  } else if (value == Py_None) {
    add(Tag::kNone, 0, key);
  } else if (PyBool_Check(value) != 0) {
    add(value == Py_True ? Tag::kTrue : Tag::kFalse, 0, key);
  } else if (PyLong_CheckExact(value) != 0) {
    int overflow = 0;
    const int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow != 0) return false;
    add(Tag::kInteger, 0, key);
    key.add(static_cast<uint64_t>(number));
  } else if (PyFloat_CheckExact(value) != 0) {
    add(Tag::kFloat, 0, key);
    add_bits(PyFloat_AS_DOUBLE(value), key);
  } else if (PyUnicode_CheckExact(value) != 0) {
    return add_text(value, key);
  } else if (is_context(value)) {
    const mx_context context = context_of(value);
    add(Tag::kContext, 0, key);
    key.add(static_cast<uint64_t>(static_cast<uint32_t>(context.type)) << 32 |
            static_cast<uint32_t>(context.id));
  } else if (PyTuple_CheckExact(value) != 0 || (depth == 0 && PyList_CheckExact(value) != 0)) {
    // A list in a tuple may change while Python parses it; those of a call itself are copied.
    if (depth == kDeepest) return false;
    if (PyTuple_CheckExact(value) != 0) return add_items(Tag::kTuple, value, key, depth, by_address);
    const CriticalSection section(value);  // what is added of its items leaves the interpreter nowhere
    return add_items(Tag::kList, value, key, depth, by_address);
  } else if (is_named_by_address(value)) {
    add(Tag::kAddress, 0, key);
    key.add(reinterpret_cast<uint64_t>(value));
    if (by_address != nullptr) by_address->push_back(py::reinterpret_borrow<py::object>(value));
  } else {
    return false;
  }
  return true;
}

// Adds how many arguments there are and what they are called.
bool add_form(const Arguments& arguments, CacheKey& key) {
  const Py_ssize_t n = arguments.names == nullptr ? 0 : PyTuple_GET_SIZE(arguments.names);
  key.add(static_cast<uint64_t>(n) << 32 | arguments.n_positional);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* name = PyTuple_GET_ITEM(arguments.names, i);
    if (PyUnicode_CheckExact(name) == 0 || !add_text(name, key)) return false;
  }
  return true;
}

struct RuntimeScalar {
  int32_t index;
  double value;
};

// The value of an exact int or float.
bool as_runtime_scalar(PyObject* value, double* number) noexcept {
  if (PyFloat_CheckExact(value) != 0) {
    *number = PyFloat_AS_DOUBLE(value);
    return true;
  }
  if (PyLong_CheckExact(value) == 0) return false;
  *number = PyLong_AsDouble(value);
  if (*number != -1.0 || PyErr_Occurred() == nullptr) return true;
  PyErr_Clear();  // too large for a double; a conversion of an int says nothing else
  return false;
}

// Adds a whole call.  `runtime` says which arguments may be any number; their values go to `scalars`.
bool add_call(const Arguments& arguments, const std::vector<int32_t>* runtime, CacheKey& key,
              SmallVector<RuntimeScalar, 8>& scalars, std::vector<py::object>* by_address) {
  if (!add_form(arguments, key)) return false;
  const size_t n = arguments.size();
  for (size_t i = 0; i < n; ++i) {
    PyObject* value = arguments.values[i];
    double number = 0;
    if (runtime != nullptr && (*runtime)[i] >= 0 && as_runtime_scalar(value, &number)) {
      add(Tag::kAnyNumber, 0, key);
      scalars.push_back({(*runtime)[i], number});
    } else if (!add_value(value, key, 0, by_address)) {
      return false;
    }
  }
  return true;
}

bool has_runtime_scalars(const PyOperator& op) {
  for (const py::handle field : op.property.attr("Param").attr("fields")()) {
    if (field.attr("runtime").cast<bool>()) return true;
  }
  return false;
}

}  // namespace

BoundCall::~BoundCall() {
  for (py::object& object : named_by_address) drop(object);
}

CallSites::CallSites(PyOperator& op) : op_(op), has_runtime_scalars_(has_runtime_scalars(op)) {}

void CallSites::bind(const Arguments& arguments, CallSite& site) {
  static thread_local CacheKey key;
  Ref<Form> form;
  const bool by_form = has_runtime_scalars_ && !mode().recording;
  if (by_form) {
    key.clear();
    if (add_form(arguments, key)) form = forms_.find(key);
  }
  if (!by_form || form) {
    key.clear();
    SmallVector<RuntimeScalar, 8> given;
    if (add_call(arguments, form ? &form->runtime : nullptr, key, given, nullptr)) {
      site.bound = sites_.find(key);
    }
    if (site.bound) {
      if (given.empty()) return;
      for (const double value : site.bound->params->scalars) site.scalars.push_back(value);
      for (const RuntimeScalar& scalar : given) {
        site.scalars[static_cast<size_t>(scalar.index)] = scalar.value;
      }
      return;
    }
  }
  bind_slowly(arguments, site);
}

void CallSites::bind_slowly(const Arguments& arguments, CallSite& site) {
  // While Python parses them, nobody may change what the key is made of.
  const size_t n = arguments.size();
  py::tuple values(n);
  for (size_t i = 0; i < n; ++i) {
    PyObject* value = arguments.values[i];
    values[i] = PyList_CheckExact(value) != 0
                    ? py::reinterpret_steal<py::object>(owned(PySequence_List(value)))
                    : py::reinterpret_borrow<py::object>(value);
  }
  py::tuple positional(arguments.n_positional);
  for (size_t i = 0; i < arguments.n_positional; ++i) positional[i] = values[i];
  py::dict named;
  for (size_t i = arguments.n_positional; i < n; ++i) {
    named[py::handle(PyTuple_GET_ITEM(arguments.names, i - arguments.n_positional))] = values[i];
  }
  const py::object parsed = hooks().bind(op_.property, positional, named);
  const Ref<BoundCall> bound = Ref<BoundCall>::adopt(new BoundCall);
  bound->params = op_.params(parsed.attr("params"));
  bound->inputs = parsed.attr("inputs").cast<std::vector<uint32_t>>();
  bound->out = parsed.attr("out").cast<int32_t>();
  const py::object context = parsed.attr("context");
  bound->has_context = !context.is_none();
  if (bound->has_context) bound->context = context_of(context.ptr());

  const Arguments copied{PySequence_Fast_ITEMS(values.ptr()), arguments.n_positional,
                         arguments.names};
  const Ref<Form> form =
      Ref<Form>::adopt(new Form(parsed.attr("runtime").cast<std::vector<int32_t>>()));
  CacheKey key;
  const bool by_form = has_runtime_scalars_ && !mode().recording;
  SmallVector<RuntimeScalar, 8> given;
  if (add_call(copied, by_form ? &form->runtime : nullptr, key, given, &bound->named_by_address)) {
    sites_.insert(key, bound);
  }
  if (by_form) {
    key.clear();
    if (add_form(copied, key)) forms_.insert(key, form);
  }
  site.bound = bound;
  site.copies = std::move(values);
}

}  // namespace mx::nd
