"""Who holds each device: what the adapters claim, and how their claims become shares."""
