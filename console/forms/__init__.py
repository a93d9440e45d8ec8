"""What pages send: one module for each noun."""
