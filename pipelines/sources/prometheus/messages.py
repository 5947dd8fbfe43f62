"""The messages of Prometheus's remote read, built from their field numbers (prompb/remote.proto, types.proto).

Repeated messages that come by the ten thousand (labels, chunks, samples) are declared as bytes, which is the same on
the wire: they are then handed over without an object each, and read as arrays by `wire`.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

STREAMED_XOR_CHUNKS: Final = 1
SAMPLES: Final = 0
XOR: Final = 1  # Chunk.Encoding

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
    "ReadResponse": (("results", 1, "QueryResult", True),),
    "QueryResult": (("timeseries", 1, "TimeSeries", True),),
    "TimeSeries": (("labels", 1, _KIND.TYPE_BYTES, True), ("samples", 2, _KIND.TYPE_BYTES, True)),
    "ChunkedReadResponse": (("chunked_series", 1, "ChunkedSeries", True),),
    "ChunkedSeries": (("labels", 1, _KIND.TYPE_BYTES, True), ("chunks", 2, _KIND.TYPE_BYTES, True)),
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
ReadResponse: Final = _CLASSES["ReadResponse"]
ChunkedReadResponse: Final = _CLASSES["ChunkedReadResponse"]
Label: Final = _CLASSES["Label"]
