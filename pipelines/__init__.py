"""From samples and leases to money: sources, quality, leases, roll-up, rating, ledger, publishing."""
