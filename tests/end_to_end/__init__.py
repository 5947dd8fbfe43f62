"""Whole commands on whole inputs: real files, real servers, real processes that are killed."""
