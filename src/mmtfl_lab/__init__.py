"""The laboratory beside mmtfl: the experiments of the paper, and the benchmark against other libraries."""
