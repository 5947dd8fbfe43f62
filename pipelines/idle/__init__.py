"""Idle capacity by cause and by owner, what it is worth, and what would free it.

A report's idle, stranded and down hours, and the idle part of what was held, each in one place and none twice.
"""
