# Written by tools/generate.py.
from posenc.plot.draw.bias import bias as bias
from posenc.plot.draw.compare import compare as compare
from posenc.plot.draw.counter import counter as counter
from posenc.plot.draw.find import find as find
from posenc.plot.draw.offset import offset as offset
from posenc.plot.draw.picture import Picture as Picture
from posenc.plot.draw.rotation import rotation as rotation
from posenc.plot.draw.similarity import similarity as similarity
from posenc.plot.draw.stretch import stretch as stretch
from posenc.plot.draw.sum import sum as sum
from posenc.plot.draw.table import table as table
from posenc.plot.draw.wavelengths import wavelengths as wavelengths
from posenc.plot.draw.waves import waves as waves

__all__ = [
    "Picture",
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
