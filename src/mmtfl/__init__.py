"""Multitask feature learning."""
