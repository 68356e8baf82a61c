#!/bin/sh
# When the tasks of an allocation have ended: its volume is unmounted and its claim given back, also after a prestart that failed. The agent
# goes on by itself with what is not unmounted yet.
set -eu
place=$NOMAD_ALLOC_DIR/$HOLDFAST_VOLUME
! mountpoint -q "$place" || umount "$place"
[ ! -d "$place" ] || rmdir "$place"
holdfast call --address "$HOLDFAST_AGENT" ReleaseWorkload "{
  \"namespace\": \"$NOMAD_NAMESPACE\",
  \"workload\": \"nomad-$NOMAD_ALLOC_ID\",
  \"wait_for\": \"25s\"
}"
