"""The boards' PromQL, apart from their panels: each module holds one board's queries as named constants."""
