# Written by tools/generate.py.
from posenc.plot.draw.picture import Picture as Picture
from posenc.plot.draw.pictures.scores import attention as attention
from posenc.plot.draw.pictures.scores import bias as bias
from posenc.plot.draw.pictures.scores import compare as compare
from posenc.plot.draw.pictures.scores import offset as offset
from posenc.plot.draw.pictures.scores import rotation as rotation
from posenc.plot.draw.pictures.scores import similarity as similarity
from posenc.plot.draw.pictures.scores import stretch as stretch
from posenc.plot.draw.pictures.tables import counter as counter
from posenc.plot.draw.pictures.tables import find as find
from posenc.plot.draw.pictures.tables import scene as scene
from posenc.plot.draw.pictures.tables import sum as sum
from posenc.plot.draw.pictures.tables import table as table
from posenc.plot.draw.pictures.tables import wavelengths as wavelengths
from posenc.plot.draw.pictures.tables import waves as waves

__all__ = [
    "Picture",
    "attention",
    "bias",
    "compare",
    "counter",
    "find",
    "offset",
    "rotation",
    "scene",
    "similarity",
    "stretch",
    "sum",
    "table",
    "wavelengths",
    "waves",
]
