"""Choosing: folds that keep every task, scores by task, paths and cross-validation."""
