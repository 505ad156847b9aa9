"""Atomic file writing, archives without pickle, JSON values, and content hashes."""
