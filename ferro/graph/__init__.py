"""Programs as graphs: captured from a function, printed, parsed, kept in files, differentiated, and replayed with eager's bits."""

from ferro.control_flow import switch
from ferro.graph import control as _control
from ferro.graph.capture import capture
from ferro.graph.differentiate import Gradient
from ferro.graph.errors import CaptureError, GraphFormatError, PassError
from ferro.graph.graph import Graph
from ferro.graph.ir import Node, Value

__all__ = ["CaptureError", "Gradient", "Graph", "GraphFormatError", "Node", "PassError", "Value", "capture", "switch"]
