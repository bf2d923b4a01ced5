"""What can be compared: models, buffers, engines."""
