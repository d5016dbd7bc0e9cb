"""Ready-made preprocessing and postprocessing: graphs that are built of steps, without TensorFlow.

As a library::

    import gdsurgeon as gds

    model = gds.load("model.pb")
    pre = gds.steps.preprocessing("decode-image | resize(224, 224, like=pillow) | rescale(1/255)", model)
    gds.add_preprocessing(model, pre)
    model.save("served.pb")

`gdsurgeon steps` lists the steps. A new step is a function with the decorator `step` in the module of its family; see
`gdsurgeon.steps.catalog`.
"""

from gdsurgeon.steps.build import inserted, postprocessing, preprocessing

__all__ = ["inserted", "postprocessing", "preprocessing"]
