#!/usr/bin/env bash
# The steps of tools/Dockerfile where there is no engine of containers, and what its image would do: the size, the
# start, the first answers, by nobody on a read-only tree.
#
#   tools/verify/container.sh RUN      # as root; a run that translates from Korean
#
# A fresh root folder shows the system's files and Python's where the base image has them, all read-only, in a
# mount namespace of its own; the steps are carried out in one, and their result is used in another.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
image_python=$(sed -n 's/^FROM python:\([0-9.]*\).*AS build/\1/p' "$here/tools/Dockerfile")

if [ "${1:-}" != --inside ]; then
  [ $# = 1 ] && [ -f "$1/best.safetensors" ] || { echo "usage: tools/verify/container.sh RUN" >&2; exit 1; }
  prefix=$("python$image_python" -c 'import sys; print(sys.base_prefix)')
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT # nothing is mounted there outside of the namespace
  unshare --mount "$0" --inside "$work" "$(realpath "$1")" "$prefix"
  exit
fi
work=$2 run=$3 prefix=$4
base=(LD_LIBRARY_PATH=/usr/local/lib PATH=/opt/bytenmt/bin:/usr/local/bin:/usr/bin:/bin)

show() { # a folder, read-only, elsewhere too
  mount --bind "$1" "$2"
  mount -o remount,bind,ro "$2"
}

base_image() { # $1: the folder that becomes a root
  mkdir -p "$1"/{usr,etc,proc,dev,tmp,model,source,opt/bytenmt}
  mount --bind "$1" "$1"
  for link in bin sbin lib lib64; do [ ! -L /$link ] || ln -s "usr/$link" "$1/$link"; done
  show /usr "$1/usr"
  show "$prefix" "$1/usr/local"
  show /etc "$1/etc"
  mount --bind /proc "$1/proc"
  for device in null zero random urandom; do
    touch "$1/dev/$device"
    mount --bind "/dev/$device" "$1/dev/$device"
  done
}

since() { echo "$(date +%s.%N) - $1" | bc; }

echo "== the steps of the build" >&2
mkdir "$work/built"
base_image "$work/build"
mount --bind "$work/built" "$work/build/opt/bytenmt"
sed -n 's/^COPY \([^-]\)/\1/p' "$here/tools/Dockerfile" | while read -ra words; do
  last=$((${#words[@]} - 1)) to="$work/build/source/${words[-1]}"
  [[ $to != */ ]] || mkdir -p "$to"
  (cd "$here" && cp -r "${words[@]:0:last}" "$to")
done
find "$work/build/source" -name __pycache__ -prune -exec rm -r {} +
sed -n 's/^RUN //p' "$here/tools/Dockerfile" | while read -r step; do
  began=$(date +%s.%N)
  chroot "$work/build" env "${base[@]}" HOME=/tmp sh -ec "cd /source; $step" </dev/null
  echo "$(since "$began") s: $step"
done

base_image "$work/image"
show "$work/built" "$work/image/opt/bytenmt"
show "$run" "$work/image/model"
mount -o remount,bind,ro "$work/image"
nobody=(chroot "$work/image" setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --bounding-set=-all
  env -i "${base[@]}" PYTHONDONTWRITEBYTECODE=1)

echo "== the image, without its base" >&2
echo "$(du -sm "$work/built" | cut -f1) MB, of which:"
du -sm "$work"/built/lib/python*/site-packages/* | sort -rn | head -6 | sed "s|$work/built/||"
echo "== nobody writes anywhere" >&2
for folder in / /opt/bytenmt /opt/bytenmt/lib /model /tmp /usr /etc /dev; do
  if "${nobody[@]}" touch "$folder/x" 2>/dev/null; then
    echo "$folder was written to" >&2
    exit 1
  fi
done

echo "== starts and first answers" >&2
line=$(sed -n 50p "$here/data/test.ko")
for time in first second third; do
  began=$(date +%s.%N)
  answer=$(echo "$line" | "${nobody[@]}" bytenmt translate /model)
  echo "translate, $time: $(since "$began") s: $answer"
done
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
began=$(date +%s.%N)
"${nobody[@]}" bytenmt serve -m ko-en=/model --port "$port" &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
for _ in $(seq 600); do
  ! curl -fs "http://127.0.0.1:$port/health" >/dev/null || break
  sleep 0.1
done
echo "serve, until it is healthy: $(since "$began") s"
began=$(date +%s.%N)
curl -fsS "http://127.0.0.1:$port/translate" --data-urlencode "q=$line" -d source=ko -d target=en
echo " serve, first answer: $(since "$began") s"
kill -TERM $server
wait $server
