"""How per-task work is run: the engines know nothing of the maths, and the answer does not depend on them."""
