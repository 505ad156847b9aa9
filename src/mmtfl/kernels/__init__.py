"""Everything compiled: the row problem, sweeps over rows, and passes over columns."""
