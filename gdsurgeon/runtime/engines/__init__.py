"""Engines other than TensorFlow, behind the runtime's interface: found, loaded, given a graph, run; one engine a file.

An engine gets the same request as in a deployment: the whole graph unchanged, and values for its inputs. An error of
    an engine about the graph is therefore a `failures.TensorFlowError`, like an error of TensorFlow, with the code
    ``unimplemented``.
"""
