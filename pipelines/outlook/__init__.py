"""Looking ahead: how budgets burn, where a month is going, what is unusual, and what an hour costs."""
