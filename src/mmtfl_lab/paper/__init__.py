"""The experiments of the paper, and the same protocol on a user's table."""
