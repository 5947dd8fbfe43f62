"""How the fleet is read in PromQL: series names old and new, the recorded layer, and what a query must keep to."""
