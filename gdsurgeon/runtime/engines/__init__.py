"""Engines other than TensorFlow, behind the runtime's interface: found, loaded, given a graph, run; one engine a file.

What is asked of an engine is what somebody who deploys a model would ask: the whole graph is handed over as it is, and
its inputs are fed. So what an engine says against a graph comes as `failures.TensorFlowError`, as what TensorFlow says
does, with the code ``unimplemented``.
"""
