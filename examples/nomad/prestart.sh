#!/bin/sh
# Before the tasks of an allocation: its volume is claimed for this node and mounted where they see it. Nomad starts it again after a failure,
# and after its client was started anew: each step may be repeated.
set -eu
workload=nomad-$NOMAD_ALLOC_ID
place=$NOMAD_ALLOC_DIR/$HOLDFAST_VOLUME
answer=$(
  holdfast call --address "$HOLDFAST_AGENT" PrepareWorkload "{
    \"namespace\": \"$NOMAD_NAMESPACE\",
    \"workload\": \"$workload\",
    \"volumes\": [{\"claim\": {\"volume\": \"$HOLDFAST_VOLUME\"}}],
    \"wait_for\": \"25s\"
  }"
)
path=$(echo "$answer" | sed -n 's/^ *"host_path": "\(.*\)",$/\1/p' | head -n 1)
[ -d "$path" ] || {
  echo "volume $HOLDFAST_VOLUME is no file system: $answer" >&2
  exit 1
}
mkdir -p "$place"
mountpoint -q "$place" || mount --bind "$path" "$place"
