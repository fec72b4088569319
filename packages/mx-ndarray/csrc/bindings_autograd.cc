// SPDX-License-Identifier: Apache-2.0
//
// Recording state, leaves, backward, functions with a gradient written in Python.
#include <unordered_map>

#include "bindings.hpp"

namespace mx::nd {
namespace {

Value value_of(const py::handle& object) {
  if (object.is_none()) return {};
  return expect_array(object.ptr(), "[autograd]")->value();
}

std::vector<Value> values_of(const py::object& list) {
  std::vector<Value> values;
  if (list.is_none()) return values;
  for (const py::handle item : list) {
    values.push_back(value_of(item));
    if (values.back().array) wait_for_shape(*values.back().array);
  }
  return values;
}

py::object wrapped(Value value) {
  if (!value.array) return py::none();
  return py::reinterpret_steal<py::object>(wrap(std::move(value)));
}

class PythonBackward final : public CustomBackward {
 public:
  PythonBackward(py::object function, bool direct) : function_(std::move(function)), direct_(direct) {}
  ~PythonBackward() override { drop(function_); }
  std::vector<Value> backward(const std::vector<Value>& out_grads, const std::vector<Value>& targets,
                              bool retained) override {
    const py::list grads = listed(out_grads);
    return values_of(direct_ ? function_(grads, listed(targets), retained) : function_(grads, retained));
  }
  bool is_foreign() const noexcept override { return !direct_; }
  const py::object& function() const noexcept { return function_; }

 private:
  static py::list listed(const std::vector<Value>& values) {
    py::list list(values.size());
    for (size_t i = 0; i < values.size(); ++i) list[i] = wrapped(values[i]);
    return list;
  }

  py::object function_;
  bool direct_;  // a function of ours, which is told where it may write
};

void mark_variables(const py::list& arrays, const py::list& grads, const std::vector<int>& reqs) {
  if (arrays.size() != grads.size() || arrays.size() != reqs.size()) {
    throw Error(MX_ERROR_VALUE, "[autograd] expected as many gradients and requests as variables");
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    PyArray* array = expect_array(arrays[i].ptr(), "[autograd] variable");
    const auto req = static_cast<mx_req>(reqs[i]);
    Ref<Array> grad = value_of(grads[i]).array;
    if (req == MX_REQ_NULL) grad = nullptr;
    if (grad && (grad->bytes() != array->array->bytes() || grad->dtype() != array->array->dtype())) {
      throw Error(MX_ERROR_SHAPE, "[autograd] gradient " + std::to_string(i) + ": expected shape " +
                                      array->array->shape().text() + " of the variable's type, got " +
                                      grad->shape().text());
    }
    set_node(array, Node::variable(std::move(grad), req), 0);
  }
}

py::object run_backward(const py::list& heads, const py::object& head_grads,
                        const py::object& variables, bool retain_graph, bool create_graph,
                        bool train_mode) {
  BackwardRequest request;
  request.heads = values_of(heads);
  request.head_grads = values_of(head_grads);
  request.variables = values_of(variables);
  request.retain_graph = retain_graph;
  request.create_graph = create_graph;
  request.training = train_mode;
  std::vector<Value> grads = backward(request, library());
  py::list results;
  for (Value& grad : grads) results.append(wrapped(std::move(grad)));
  return results;
}

void record_custom(const py::list& inputs, const py::list& outputs, const py::object& function, bool direct) {
  Ref<Saved> saved = Ref<Saved>::adopt(new Saved);
  saved->body = std::make_unique<PythonBackward>(function, direct);
  for (const Value& input : values_of(inputs)) {
    saved->inputs.push_back({input.node, input.index});
    if (direct) saved->kept_inputs.push_back(input.array);
  }
  for (const Value& output : values_of(outputs)) {
    if (direct) saved->kept_outputs.push_back(output.array);
    saved->outputs.push_back(
        {output.array->context(), output.array->dtype(), output.array->shape(), nullptr});
  }
  const Ref<Node> node = Node::custom(Ref<const Saved>::adopt(saved.detach()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    set_node(as_array(outputs[i].ptr()), node, static_cast<uint32_t>(i));
  }
}

// A view was made without running the operator that it stands for.
void record_view(const py::object& property, const py::object& params, const py::object& source,
                 const py::object& view) {
  if (!mode().recording) return;
  PyOperator& op = operator_of(property);
  const Ref<Params> handle = op.params(params);
  const Value input = value_of(source);
  PyArray* output = expect_array(view.ptr(), "[autograd] view");
  Value result = output->value();
  Array* outputs[] = {output->array};
  result.node = nullptr;
  record(op, *handle, &input, 1, outputs, 1, &result, 1);
  set_node(output, result.node, result.index);
}

// The graph below an array: per node (property, parameters, inputs) in the order of computation;
// inputs are (node, output), None where the graph begins.  Leaves have no property; a node that is no
// operator has its backward function in place of one, and no parameters.
py::list graph_of(const py::object& head) {
  const Graph graph({value_of(head)}, false);
  std::unordered_map<const Node*, size_t> position;
  py::list nodes;
  for (size_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    position.emplace(&node, i);
    py::list inputs;
    for (const Edge& edge : graph.saved(i).inputs) {
      inputs.append(edge.node ? py::object(py::make_tuple(position.at(edge.node.get()), edge.index))
                              : py::object(py::none()));
    }
    if (node.kind == Node::Kind::kVariable) {
      nodes.append(py::make_tuple(py::none(), py::none(), inputs));
    } else if (node.kind == Node::Kind::kCustom) {
      const auto& body = static_cast<const PythonBackward&>(*graph.saved(i).body);
      nodes.append(py::make_tuple(body.function(), py::none(), inputs));
    } else {
      nodes.append(py::make_tuple(static_cast<PyOperator&>(*node.op).property,
                                  static_cast<PyParams&>(*node.params).instance, inputs));
    }
  }
  return nodes;
}

}  // namespace

void register_autograd(py::module_& module) {
  module.def("is_recording", [] { return mode().recording; });
  module.def("is_training", [] { return mode().training; });
  module.def("set_recording", [](bool on) { return std::exchange(mode().recording, on); });
  module.def("set_training", [](bool on) { return std::exchange(mode().training, on); });
  module.def("set_priority",
             [](int32_t priority) { return std::exchange(mode().priority, priority); });
  module.def("mark_variables",
             [](const py::list& arrays, const py::list& grads, const std::vector<int>& reqs) {
               translated([&] { mark_variables(arrays, grads, reqs); });
             });
  module.def("backward", [](const py::list& heads, const py::object& head_grads,
                            const py::object& variables, bool retain_graph, bool create_graph,
                            bool train_mode) {
    return translated([&] {
      return run_backward(heads, head_grads, variables, retain_graph, create_graph, train_mode);
    });
  });
  module.def(
      "record_custom",
      [](const py::list& inputs, const py::list& outputs, const py::object& function, bool direct) {
        translated([&] { record_custom(inputs, outputs, function, direct); });
      },
      py::arg("inputs"), py::arg("outputs"), py::arg("function"), py::arg("direct") = false);
  module.def("graph_of", [](const py::object& head) {
    return translated([&] { return graph_of(head); });
  });
  module.def("output_index", [](const py::object& array) {
    return translated([&] { return value_of(array).index; });
  });
  module.def("record_view", [](const py::object& property, const py::object& params,
                               const py::object& source, const py::object& view) {
    translated([&] { record_view(property, params, source, view); });
  });
}

}  // namespace mx::nd
