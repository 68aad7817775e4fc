"""The library for programs. Recipes:

Train, watch, and see how good it is (`import bytenmt` imports nothing heavy; this needs the extra `train`):

>>> import bytenmt
>>> seen = []
>>> run = bytenmt.train(
...     "runs/general", arch="bahdanau", preset="tiny", src="src", tgt="tgt", valid_src="src",
...     valid_tgt="tgt", settings={"model.d_hidden": 16}, max_updates=3, log_every=1, threads=1,
...     on_metrics=seen.append)
>>> [record["update"] for record in seen if "train_bits_per_byte" in record]
[1, 2, 3]
>>> found = run.evaluate("src", "tgt", beam=2, max_len_a=1, max_len_b=5)
>>> len(found.texts), found.bits_per_byte > 0
(4, True)

Fine-tune on text of one's own, from those weights:

>>> own = bytenmt.train(
...     "runs/own", init_from="runs/general", src="src", tgt="tgt", valid_src="src", valid_tgt="tgt",
...     max_updates=1, lr=1e-4, threads=1)

Ship: a file of a quarter of the bytes, which needs neither PyTorch nor the run:

>>> import pathlib
>>> from bytenmt.checkpoints.quantize import convert
>>> _ = [*convert(own.path, pathlib.Path("own.safetensors"), "int8")]
>>> translator = bytenmt.Translator.load("own.safetensors", threads=1)
>>> type(translator.translate("one line"))
<class 'str'>

Serve it: `bytenmt serve -m ko-en=own.safetensors`.

Add an architecture: bytenmt/docs/adding-an-architecture.md.
"""
