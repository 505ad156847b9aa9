"""What is minimised: losses, penalties, the product form behind them, and the objective they make."""
