"""The book: statements, closed periods, corrections and what is exported from them."""
