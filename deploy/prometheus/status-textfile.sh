#!/bin/sh
# Write the status as a file for the textfile collector of Prometheus' node_exporter.
#
# usage: status-textfile.sh CONFIG FILE.prom
#
# If there is no status, the file stays as it was, and this fails. The time in the file then grows old, which is
# an alert.
set -eu

config=$1
file=$2

# Beside the file, since only then is mv atomic; and not *.prom, since the collector would read half a file.
new=$(mktemp "$file.XXXXXX")
trap 'rm -f "$new"' EXIT

# 3: a threshold is crossed. The metrics say so, and the alert is theirs.
status=0
kafka-metadata-history status --config "$config" --format prometheus >"$new" || status=$?
if [ "$status" -ne 0 ] && [ "$status" -ne 3 ]; then
  exit "$status"
fi
[ -s "$new" ]

# mktemp makes files that only their owner may read.
chmod 0644 "$new"
mv -f "$new" "$file"
