"""The grammar of what the page draws."""
