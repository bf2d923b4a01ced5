"""What each attention of a loaded model does: the autograd graph of one run, read."""
