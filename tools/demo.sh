#!/usr/bin/env bash
# What a model in the clone says; then the main job on the generated sample: train a small model, translate stdin,
# score the test set.
set -euo pipefail
source "$(dirname "$0")/setup.sh"
run=runs/demo

echo "== a model that is there: data/models/en-de" >&2
some="The file {name} could not be saved.
Save changes before closing?
I have never been to Spain."
paste <(echo "$some") <(bytenmt translate data/models/en-de <<<"$some")

echo "== training on data/ (Korean to English) for ${UPDATES:=2000} updates into $run" >&2
# A number of updates, so that the result does not depend on the machine. One thread: so small a model gains half
# as much again from a second core, but loses far more where that core is busy with something else.
resume=$([ ! -f $run/trainer.pt ] || echo --resume)
bytenmt train -o $run --arch bahdanau --preset tiny $resume --threads 1 \
  --src data/train.ko --tgt data/train.en --valid-src data/valid.ko --valid-tgt data/valid.en \
  --max-updates "$UPDATES"

echo "== some lines of the test set through stdin" >&2
for number in 1 50 100 150 200 250 300 350 400 450; do sed -n "${number}p" data/test.ko; done >$run/some.ko
bytenmt translate $run <$run/some.ko | paste $run/some.ko -

echo "== the whole test set" >&2
bytenmt evaluate $run --src data/test.ko --ref data/test.en

cat >&2 <<'E2'

For your own text, two files of which line i of one translates line i of the other:
  source .venv/bin/activate
  bytenmt train -o runs/mine --arch bahdanau --src train.xx --tgt train.yy \
    --valid-src valid.xx --valid-tgt valid.yy --max-minutes 60
  echo "a line of xx" | bytenmt translate runs/mine
E2
