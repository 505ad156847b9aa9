"""Every number that carries an error rate: levels of tasks, effects, and the words that follow from them."""
