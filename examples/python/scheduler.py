"""A scheduler in Python: a volume, the best node for a workload, its claim, and everything given back.

    python3 -m venv .venv && .venv/bin/pip install -r examples/python/requirements.txt
    .venv/bin/python -m grpc_tools.protoc -I proto --python_out=gen --grpc_python_out=gen proto/holdfast/v1/*.proto
    PYTHONPATH=gen .venv/bin/python examples/python/scheduler.py 127.0.0.1:7600 local.holdfast.dev

With certificates: HOLDFAST_TLS_DIR is a directory as `holdfast ca issue scheduler/python` writes it, and HOLDFAST_CONTROLLER the ID of
the controller, which its certificate has as a DNS name.
"""

import json
import os
import pathlib
import sys

import grpc
from google.protobuf import duration_pb2
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from holdfast.v1 import claim_pb2, claim_pb2_grpc, common_pb2, placement_pb2, placement_pb2_grpc, volume_pb2, volume_pb2_grpc

NAMESPACE = "python"
MINUTE = duration_pb2.Duration(seconds=60)
# Every call may be made again: the same claim, volume or release is the same one, whoever asked before. UNAVAILABLE tells to try.
RETRY = {
    "methodConfig": [
        {
            "name": [{"service": ""}],
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.2s",
                "maxBackoff": "5s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}


def connect(address):
    options = [("grpc.service_config", json.dumps(RETRY)), ("grpc.enable_http_proxy", 0)]
    directory = os.environ.get("HOLDFAST_TLS_DIR")
    if directory is None:
        return grpc.insecure_channel(address, options)
    ca, cert, key = ((pathlib.Path(directory) / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key"))
    options.append(("grpc.ssl_target_name_override", os.environ["HOLDFAST_CONTROLLER"]))
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(ca, key, cert), options)


def reason_of(error):
    """The stable name of an error, for programs; its words are for people."""
    status = rpc_status.from_call(error)
    for detail in status.details if status else []:
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            return info.reason
    return error.code().name


def run(channel, plugin, say):
    # Without TLS a caller says who it is; with it, its certificate does.
    caller = () if "HOLDFAST_TLS_DIR" in os.environ else (("x-holdfast-identity", "scheduler/python"),)
    volumes = volume_pb2_grpc.VolumeServiceStub(channel)
    claims = claim_pb2_grpc.ClaimServiceStub(channel)
    placement = placement_pb2_grpc.PlacementServiceStub(channel)

    def call(method, request):
        return method(request, timeout=90, metadata=caller)

    capability = common_pb2.VolumeCapability(
        attachment_mode=common_pb2.ATTACHMENT_MODE_FILE_SYSTEM,
        access_mode=common_pb2.ACCESS_MODE_SINGLE_NODE_WRITER,
    )
    volume = call(
        volumes.CreateVolume,
        volume_pb2.CreateVolumeRequest(
            namespace=NAMESPACE,
            id="data",
            plugin=plugin,
            capacity=common_pb2.CapacityRange(required_bytes=64 << 20),
            capabilities=[capability],
            wait_for=MINUTE,
        ),
    ).volume
    say(f"volume {volume.id} is {volume_pb2.VolumeState.Name(volume.state)}")

    wanted = [claim_pb2.ClaimSpec(volume="data")]
    nodes = call(
        placement.CheckPlacement,
        placement_pb2.CheckPlacementRequest(namespace=NAMESPACE, claims=wanted, feasible_only=True),
    ).nodes
    if not nodes:
        sys.exit("no node can have volume data")
    node = max(nodes, key=lambda each: each.score).node

    claim = claim_pb2.CreateClaimsRequest(
        namespace=NAMESPACE, workload="job", node=node, claims=wanted, wait_for=MINUTE
    )
    [held] = call(claims.CreateClaims, claim).claims
    if held.state != claim_pb2.CLAIM_STATE_ACTIVE:
        sys.exit(f"job did not get its volume: {held.waiting_for} {held.last_error.message}")
    say(f"job has {held.volume} on {node}")
    pathlib.Path(held.host_path, "from-python").write_text("hello")

    try:
        call(volumes.DeleteVolume, volume_pb2.DeleteVolumeRequest(namespace=NAMESPACE, id="data"))
    except grpc.RpcError as error:
        say(f"a volume in use is not deleted: {reason_of(error)}")

    call(
        claims.ReleaseClaims,
        claim_pb2.ReleaseClaimsRequest(namespace=NAMESPACE, workload="job", wait_for=MINUTE),
    )
    call(volumes.DeleteVolume, volume_pb2.DeleteVolumeRequest(namespace=NAMESPACE, id="data", wait_for=MINUTE))
    say("all is given back")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with connect(sys.argv[1]) as channel:
        run(channel, sys.argv[2], print)
