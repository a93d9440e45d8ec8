"""What pages show and do: one module for each noun, one function for each route."""
