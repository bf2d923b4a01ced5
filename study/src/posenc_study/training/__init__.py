"""One cell: its model is made, trained, tested and kept."""
