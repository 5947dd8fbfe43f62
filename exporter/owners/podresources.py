"""The messages of the kubelet's PodResources API (v1), built from their field numbers.

The API is published as a .proto file; the few messages that are read here are described in code, so that no
generated module ties the exporter to one version of protobuf. Unknown fields are skipped, as protobuf does.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_STRING: Final = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
_MESSAGES: Final[dict[str, tuple[tuple[str, int, str | None, bool], ...]]] = {
    # message: (field, number, type of message or None for string, repeated)
    "ListPodResourcesRequest": (),
    "AllocatableResourcesRequest": (),
    "AllocatableResourcesResponse": (("devices", 1, "ContainerDevices", True),),
    "ListPodResourcesResponse": (("pod_resources", 1, "PodResources", True),),
    "PodResources": (
        ("name", 1, None, False),
        ("namespace", 2, None, False),
        ("containers", 3, "ContainerResources", True),
    ),
    "ContainerResources": (
        ("name", 1, None, False),
        ("devices", 2, "ContainerDevices", True),
        ("dynamic_resources", 5, "DynamicResource", True),
    ),
    "ContainerDevices": (("resource_name", 1, None, False), ("device_ids", 2, None, True)),
    "DynamicResource": (
        ("claim_name", 2, None, False),
        ("claim_namespace", 3, None, False),
        ("claim_resources", 4, "ClaimResource", True),
    ),
    "ClaimResource": (
        ("cdi_devices", 1, "CDIDevice", True),
        ("driver_name", 2, None, False),
        ("pool_name", 3, None, False),
        ("device_name", 4, None, False),
    ),
    "CDIDevice": (("name", 1, None, False),),
}


def _message_classes() -> dict[str, type[Any]]:
    file = descriptor_pb2.FileDescriptorProto(name="gpuledger/podresources.proto", package="v1", syntax="proto3")
    for name, described in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, number, type_name, repeated in described:
            field = message.field.add(name=field_name, number=number)
            kind = descriptor_pb2.FieldDescriptorProto
            field.label = kind.LABEL_REPEATED if repeated else kind.LABEL_OPTIONAL
            field.type = kind.TYPE_MESSAGE if type_name else _STRING
            if type_name:
                field.type_name = f".v1.{type_name}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1.{name}")) for name in _MESSAGES}


_CLASSES: Final = _message_classes()
CALLS: Final[dict[str, tuple[str, type[Any], type[Any]]]] = {
    name: (f"/v1.PodResourcesLister/{name}", _CLASSES[f"{message}Request"], _CLASSES[f"{message}Response"])
    for name, message in (("List", "ListPodResources"), ("GetAllocatableResources", "AllocatableResources"))
}
"""Path, request and response of each call."""
