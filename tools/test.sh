#!/usr/bin/env bash
# Runs the tests, as many side by side as there are processors; arguments go to pytest (-n0: one by one).
#   tools/test.sh           all of them
#   tools/test.sh --fast    those that take a moment, with fewer examples: the loop while something is written
set -euo pipefail
source "$(dirname "$0")/setup.sh"
if [ "${1:-}" = --fast ]; then
  shift
  set -- -m "not slow" --hypothesis-profile fast "$@"
fi
# Hundreds of processes import the package: each reads the bytecode that the first has written.
unset PYTHONDONTWRITEBYTECODE
# By files, so that what a file's tests share is made once, and in the order that tests/conftest.py gives them.
python -m pytest -q -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder "$@"
