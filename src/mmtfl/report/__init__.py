"""What a fitted model says: plain numbers, then pictures and pages that render them."""
