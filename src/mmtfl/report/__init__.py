"""What a fitted model says: numbers, pictures and a page."""
