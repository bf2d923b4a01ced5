"""Arrays of any library: their quirks, and what is done with them everywhere."""
