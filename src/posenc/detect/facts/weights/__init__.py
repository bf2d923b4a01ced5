"""What the weights of queries and keys say about the channels that turn."""
