"""Engines run the work of the tasks; they know nothing of the maths, and do not change the answer."""
