"""Tasks whose rows are placed by an engine: shards, the questions put to them, and their problem."""
