"""The textbook: pure one-expression functions, one module per subject."""
