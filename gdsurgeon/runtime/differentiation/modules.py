"""What is used of TensorFlow's Python package to differentiate: its graphs, and the parts that are not public."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tensorflow.core.framework.graph_pb2 import GraphDef
    from tensorflow.core.framework.node_def_pb2 import NodeDef


class GraphTensor(Protocol):
    """A tf.Tensor of a tf.Graph."""

    name: str
    op: GraphOperation
    value_index: int
    dtype: ElementType
    shape: StaticShape

    def ref(self) -> Hashable: ...
    def consumers(self) -> list[GraphOperation]: ...
    def set_shape(self, shape: object) -> None: ...


class ElementType(Protocol):
    """A tf.DType."""

    base_dtype: ElementType
    as_datatype_enum: int


class StaticShape(Protocol):
    """A tf.TensorShape."""

    rank: int | None

    def as_list(self) -> list[int | None]: ...


class GraphOperation(Protocol):
    """A tf.Operation."""

    name: str
    type: str
    graph: TensorGraph
    node_def: NodeDef
    inputs: Sequence[GraphTensor]
    outputs: list[GraphTensor]


class PythonDevice(Protocol):
    """The properties of a device from Session.list_devices."""

    name: str
    device_type: str
    memory_limit_bytes: int


class TensorGraph(Protocol):
    """A tf.Graph."""

    def device(self, name: str | None) -> AbstractContextManager[object]: ...
    def get_operations(self) -> list[GraphOperation]: ...
    def get_operation_by_name(self, name: str) -> GraphOperation: ...

    def as_default(self) -> AbstractContextManager[object]: ...
    def as_graph_def(self) -> GraphDef: ...
    def get_tensor_by_name(self, name: str) -> GraphTensor: ...
    def _is_function(self, name: str) -> bool: ...


Gradient = Callable[..., "GraphTensor | list[GraphTensor | None] | tuple[GraphTensor | None, ...] | None"]
"""A gradient function: of an operation and the gradients of its outputs the gradients of its inputs."""


class Modules:
    """What the reverse walk uses of TensorFlow, in one place: the parts that are not public may move."""

    gradient_function: Callable[[GraphOperation], Gradient | None]
    is_trainable: Callable[[GraphTensor], bool]
    name_scope: Callable[[str], AbstractContextManager[str]]
    uid: Callable[[], int]

    def __init__(self, tf: ModuleType) -> None:
        from tensorflow.python.eager import backprop_util
        from tensorflow.python.framework import ops
        from tensorflow.python.ops import control_flow_state, default_gradient

        self.tf = tf
        self.gradient_function = ops.get_gradient_function
        self.is_trainable = backprop_util.IsTrainable
        self.name_scope = tf.compat.v1.name_scope
        self.uid = ops.uid
        self._add_slices = backprop_util.AggregateIndexedSlicesGradients
        self._has_zeros = default_gradient.supports_default_grad
        self._zeros_like = control_flow_state.ZerosLike

    def zeros_like(self, output: GraphTensor) -> GraphTensor | None:
        """Zeros for a gradient that does not exist; None if the tensor cannot have one."""
        return self._zeros_like(output.op, output.value_index) if self._has_zeros(output) else None

    def add(self, gradients: Sequence[GraphTensor]) -> GraphTensor:
        """The sum of gradients, in their order."""
        slices = any(isinstance(gradient, self.tf.IndexedSlices) for gradient in gradients)
        total: GraphTensor = self._add_slices(gradients) if slices else self.tf.add_n(gradients)
        return total

    def merge_shape(self, gradient: GraphTensor | None, tensor: GraphTensor) -> None:
        """Tells TensorFlow that GRADIENT has the shape of TENSOR."""
        if gradient is not None and isinstance(gradient, self.tf.Tensor) and tensor.dtype != self.tf.resource:
            gradient.set_shape(tensor.shape)

    def is_function(self, graph: TensorGraph, name: str) -> bool:
        """Whether an op is a function of GRAPH."""
        return bool(graph._is_function(name))
