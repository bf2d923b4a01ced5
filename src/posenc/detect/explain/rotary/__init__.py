"""The rotary parameters of a config: bases, widths, scalings, and which class takes which."""
