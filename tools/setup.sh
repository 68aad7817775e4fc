# Sourced by the other scripts: makes .venv with the pinned versions once, and again when they change.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
stamp=$(cat pyproject.toml tools/constraints.txt | cksum)
if [ "$(cat .venv/stamp 2>/dev/null)" != "$stamp" ]; then
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed" >&2; exit 1; }
  echo "installing into .venv (a few minutes the first time)" >&2
  python3 -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -c tools/constraints.txt -e ".[dev]"
  echo "$stamp" >.venv/stamp
fi
export PATH="$PWD/.venv/bin:$PATH"
