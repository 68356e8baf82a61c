#!/bin/sh
# The authority of the compose file and the certificates that it starts with. What is there and valid stays as it is, so that it may run at
# any time; what ended, such as after a machine was off for a week, is made anew. Controller and agents renew theirs while they run.
set -eu
trust="${1:-/trust}"

# Neither: a run that ended between the two is taken up by the renewal, and a root that was taken offline is not made again.
if [ ! -e "$trust/ca/root/tls.crt" ] && [ ! -e "$trust/ca/issuing/tls.crt" ]; then
  holdfast ca init --trust-domain compose.holdfast --dir "$trust/ca"
fi
holdfast ca renew --dir "$trust/ca" --unless-valid 60d
holdfast ca issue controller/compose --dir "$trust/ca" --out "$trust/controller" --unless-valid 4h
holdfast ca issue node/node-a --dir "$trust/ca" --out "$trust/node-a" --unless-valid 4h
holdfast ca issue node/node-b --dir "$trust/ca" --out "$trust/node-b" --unless-valid 4h
holdfast ca issue operator/compose --dir "$trust/ca" --out "$trust/operator" --unless-valid 8h
