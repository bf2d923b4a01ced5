"""Tables: layouts, ladders and bands behind their rows."""
