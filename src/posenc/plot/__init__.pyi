# Written by tools/generate.py.
from posenc.plot.draw.picture import Picture as Picture
from posenc.plot.draw.pictures.attention import attention as attention
from posenc.plot.draw.pictures.bias import bias as bias
from posenc.plot.draw.pictures.compare import compare as compare
from posenc.plot.draw.pictures.counter import counter as counter
from posenc.plot.draw.pictures.find import find as find
from posenc.plot.draw.pictures.offset import offset as offset
from posenc.plot.draw.pictures.rotation import rotation as rotation
from posenc.plot.draw.pictures.similarity import similarity as similarity
from posenc.plot.draw.pictures.stretch import stretch as stretch
from posenc.plot.draw.pictures.sum import sum as sum
from posenc.plot.draw.pictures.table import table as table
from posenc.plot.draw.pictures.wavelengths import wavelengths as wavelengths
from posenc.plot.draw.pictures.waves import waves as waves

__all__ = [
    "Picture",
    "attention",
    "bias",
    "compare",
    "counter",
    "find",
    "offset",
    "rotation",
    "similarity",
    "stretch",
    "sum",
    "table",
    "wavelengths",
    "waves",
]
