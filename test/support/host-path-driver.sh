#!/usr/bin/env bash
# csi-driver-host-path from the archive that CI keeps beside the project.
#   missing  prints why it cannot be had here; nothing when it can, or is there already
#   build    builds it, once, and prints where it is: a second build waits for the first; a minute of CPU, behind all other work
set -euo pipefail

version=1.18.0
oldest=go1.26.0
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
peers=${HOLDFAST_PEERS:-$root/../shared/peers}
archive=$peers/csi-driver-host-path-$version.tar.xz
binary=$root/.cache/host-path-$version
export GOTOOLCHAIN=local

missing() {
  if [ -e "$binary" ]; then return; fi
  if [ ! -e "$archive" ]; then
    echo "$archive is not there; HOLDFAST_PEERS names its folder"
    return
  fi
  local found
  if ! found=$(go env GOVERSION 2>/dev/null); then
    echo "go is not there to build it"
  elif ! printf '%s\n' "$oldest" "$found" | sort --check=quiet --version-sort; then
    echo "$found is too old to build it: it needs $oldest"
  fi
}

build() {
  mkdir -p "$root/.cache"
  exec 9>"$binary.lock"
  flock 9
  if [ -e "$binary" ]; then return; fi
  local why sources=$binary.sources
  why=$(missing)
  if [ -n "$why" ]; then
    echo "$why" >&2
    return 1
  fi
  # Of a build that was killed.
  rm -rf "$sources"
  mkdir "$sources"
  tar -xJf "$archive" -C "$sources" --strip-components=1
  # Neither inlined nor with tables for debuggers: a third less to build.
  CGO_ENABLED=0 GOPROXY=off GOFLAGS="-mod=vendor -buildvcs=false" nice -n 19 go build -C "$sources" \
    -gcflags=all=-l -ldflags "-s -w -X main.version=v$version" -o "$binary.new" ./cmd/hostpathplugin
  # A build that is cut leaves no program behind.
  mv "$binary.new" "$binary"
  rm -rf "$sources"
}

case ${1:-} in
  missing) missing ;;
  build)
    build
    echo "$binary"
    ;;
  *)
    echo "usage: ${0##*/} missing|build" >&2
    exit 64
    ;;
esac
