"""Source `prometheus`: the samples that a Prometheus, or what speaks one of its protocols, has stored.

Read are the stored samples with their own timestamps, one metric and one bounded window at a time: a question for
everything would take the server's memory. An answer that fails or is partial is an error for its window, never "no
data".

    reading      windows, requests in flight
    server       which way of reading the server has
    remote_read  export  query_api      the ways; each yields an `answer`
    xor          chunks of remote read → arrays
    columns      answers → the wide sample table
    connection   retries, time-outs; sign_in: headers, credentials, TLS
"""

from __future__ import annotations

from pipelines.sources.prometheus.reading import read_prometheus, read_windows, stored_counts

__all__ = ["read_prometheus", "read_windows", "stored_counts"]
