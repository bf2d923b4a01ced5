"""Other people's code, called as it is, or told again from its formula where it is no package.

Nothing here imports posenc.
"""
