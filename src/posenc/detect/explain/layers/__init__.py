"""Which layers of a part are alike, what they do, and how far they see."""
