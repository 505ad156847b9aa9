"""Tables on disk: how they are read, and how their columns become features, targets and task labels."""
