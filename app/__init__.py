"""The web app: what a manager, an operator and a researcher look at."""
