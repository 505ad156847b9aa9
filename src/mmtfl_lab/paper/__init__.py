"""The paper's experiments, rerun, and the same protocol for anybody's table."""
