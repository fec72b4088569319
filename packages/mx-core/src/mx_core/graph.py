# SPDX-License-Identifier: Apache-2.0
"""The contract of a graph pass: the graph that it gets, the stages at which it runs, the marks that it may set.

A pass is a function from a `Graph` to a `Graph`. It never changes a node: it makes new nodes with `Graph.apply`, says
with `Graph.replace` which entries they stand for, and returns the graph that it gets back. The package of graphs
provides these classes. A pass is written against the protocols here and imports nothing else.

Examples
--------
A pass that replaces `exp` by `tanh`, and the hook that registers it:

>>> def exp_to_tanh(graph: Graph) -> Graph:
...     made = {}
...     for node in graph.find("exp"):
...         (old,) = graph.outputs_of(node)
...         (made[old],) = graph.apply("tanh", node.inputs, node.name)
...     return graph.replace(made)
>>> def mx_register_graph_passes(registry):
...     registry.add("exp-to-tanh", STAGE_GRAPH, exp_to_tanh)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from mx_core.context import Context
    from mx_core.kernels import TensorSpec
    from mx_core.operator import Operator, Params

#: every graph that is bound, before it is differentiated
STAGE_GRAPH = "graph"
#: the graph of a program that neither trains nor has gradients
STAGE_INFERENCE = "inference"
#: the whole graph of every program, its gradients included; runs last
STAGE_PROGRAM = "program"
#: the stages in the order in which they run
STAGES = (STAGE_GRAPH, STAGE_INFERENCE, STAGE_PROGRAM)

#: Attribute of prepacked and folded nodes. Such a node reads variables and other such nodes alone. It runs before the
#: first run of a program, and again only when a variable that it reads has been written.
PREPARED = "__prepared__"


@runtime_checkable
class Node(Protocol):
    """A variable, or one application of an operator. Passes read it and never change it."""

    @property
    def op(self) -> Operator | None:
        """The operator; None for a variable."""

    @property
    def params(self) -> Any:
        """The operator's parameters, an instance of `op.Param`; None for a variable."""

    @property
    def name(self) -> str:
        """The name that the user or the automatic naming gave."""

    @property
    def attrs(self) -> Mapping[str, str]:
        """Texts that are no parameters, such as `PREPARED`."""

    @property
    def inputs(self) -> Sequence[Entry]:
        """What it reads, in the order of the declaration, auxiliary states last."""

    @property
    def is_variable(self) -> bool:
        """True when nothing computes it."""

    @property
    def num_outputs(self) -> int:
        """Outputs, hidden ones included."""


@runtime_checkable
class Entry(Protocol):
    """One output of a node. Entries of one node and index are equal and have one hash."""

    @property
    def node(self) -> Node:
        """What computes it."""

    @property
    def index(self) -> Any:
        """Which output of the node, an int."""

    @property
    def name(self) -> str:
        """The name of this output."""


@runtime_checkable
class Graph(Protocol):
    """What one program computes. A pass never changes the graph that it gets."""

    @property
    def outputs(self) -> tuple[Entry, ...]:
        """What forward computes."""

    @property
    def grads(self) -> tuple[Entry, ...]:
        """What backward computes; empty without gradients."""

    @property
    def heads(self) -> tuple[Entry, ...]:
        """Outputs, then gradients."""

    @property
    def head_set(self) -> frozenset[Entry]:
        """The heads, for membership tests."""

    @property
    def specs(self) -> Mapping[Entry, TensorSpec]:
        """Shape and type of every entry."""

    @property
    def context(self) -> Context:
        """The device that it runs on."""

    @property
    def is_train(self) -> bool:
        """True when operators behave as in training."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Applications of operators in the order in which they run: forward, then backward."""

    @property
    def forward(self) -> frozenset[Node]:
        """The nodes that the outputs need, variables included."""

    @property
    def readers(self) -> Mapping[Entry, Sequence[tuple[Node, int]]]:
        """Per entry the nodes that read it, each with the position among its inputs."""

    def outputs_of(self, node: Node) -> tuple[Entry, ...]:
        """The entries of a node, hidden ones included."""

    def find(self, *names: str) -> Iterator[Node]:
        """Applications of the operators of these names, in order."""

    def only_reader(self, entry: Entry) -> tuple[Node, int] | None:
        """The node that reads an entry, if exactly one does and the entry is no head."""

    def has_kernel(
        self,
        op: Operator,
        params: Params,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
    ) -> bool:
        """True where something faster than a NumPy reference would compute a node."""

    def apply(
        self,
        op: str | Operator,
        inputs: Sequence[Entry],
        name: str,
        params: Params | None = None,
        attrs: Mapping[str, str] | None = None,
        **values: Any,
    ) -> tuple[Entry, ...]:
        """The outputs of a new node, hidden ones included.

        Parameters
        ----------
        op : an operator, or the name of one
        inputs : entries, auxiliary states last
        name : of the node
        params : its parameters; or give them one by one as keywords
        attrs : such as `{PREPARED: "1"}`

        Raises
        ------
        ShapeError, DTypeError, ArgumentError  the operator does not take such inputs
        """

    def replace(self, mapping: Mapping[Entry, Entry]) -> Graph:
        """The graph in which entries on the left are replaced by those on the right, wherever they are read.

        The entries on the right may be made of others on the left, which are replaced in turn. Nodes that nothing
        reads any more are gone.

        Raises
        ------
        PluginError  shape or type differ, or the result would depend on itself
        """


#: What `mx_register_graph_passes` registers. A pass keeps the number, shapes and types of the heads, and makes no
#: variables.
GraphPass = Callable[[Graph], Graph]
