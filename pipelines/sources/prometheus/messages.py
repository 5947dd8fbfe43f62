"""The messages of Prometheus's remote read, built from their field numbers (prompb/remote.proto, types.proto).

What comes by the ten thousand (series, chunks, samples) is read as arrays by `wire`, from the numbers below.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

STREAMED_XOR_CHUNKS: Final = 1
SAMPLES: Final = 0
XOR: Final = 1  # Chunk.Encoding

RESULTS: Final = 1
"""Of a ReadResponse; its results have series under the number below."""
SERIES: Final = 1
"""Of a QueryResult or ChunkedReadResponse."""
LABELS, POINTS = 1, 2
"""Of a TimeSeries or ChunkedSeries: points are samples or chunks."""
CHUNK_TYPE, CHUNK_DATA = 3, 4
SAMPLE_VALUE, SAMPLE_TIME = 1, 2

_KIND: Final = descriptor_pb2.FieldDescriptorProto
_MESSAGES: Final[dict[str, tuple[tuple[str, int, int | str, bool], ...]]] = {
    # message: (field, number, type or name of message, repeated)
    "ReadRequest": (("queries", 1, "Query", True), ("accepted_response_types", 2, _KIND.TYPE_INT32, True)),
    "Query": (
        ("start_timestamp_ms", 1, _KIND.TYPE_INT64, False),
        ("end_timestamp_ms", 2, _KIND.TYPE_INT64, False),
        ("matchers", 3, "LabelMatcher", True),
    ),
    "LabelMatcher": (("name", 2, _KIND.TYPE_STRING, False), ("value", 3, _KIND.TYPE_STRING, False)),  # type 0: equal
    "Labels": (("labels", 1, "Label", True),),  # of a TimeSeries or ChunkedSeries, without the rest
    "Label": (("name", 1, _KIND.TYPE_STRING, False), ("value", 2, _KIND.TYPE_STRING, False)),
}


def _message_classes() -> dict[str, type[Any]]:
    file = descriptor_pb2.FileDescriptorProto(name="gpuledger/remote.proto", package="prometheus", syntax="proto3")
    for name, described in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, number, kind, repeated in described:
            field = message.field.add(name=field_name, number=number)
            field.label = _KIND.LABEL_REPEATED if repeated else _KIND.LABEL_OPTIONAL
            if isinstance(kind, str):
                field.type, field.type_name = _KIND.TYPE_MESSAGE, f".prometheus.{kind}"
            else:
                field.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"prometheus.{name}")) for name in _MESSAGES
    }


_CLASSES: Final = _message_classes()
ReadRequest: Final = _CLASSES["ReadRequest"]
Labels: Final = _CLASSES["Labels"]
