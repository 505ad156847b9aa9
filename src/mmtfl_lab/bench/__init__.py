"""The benchmark: problems by libraries, judged by one objective; docs/benchmarks.md has the protocol."""
