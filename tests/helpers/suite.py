"""Which tests go first and which are slow, from the times that they took. Knows no test's inside.

A test that is not named here is quick. `pytest --durations=40` shows what should be.
"""

from __future__ import annotations

from collections.abc import Iterator

# Paths are below tests/. With nothing kept on disk its first test compiles the CPU engine, 45 seconds of
# work, while another process is at those that do without.
FIRST = "decoding/test_cpu_engine.py"
WITHOUT_ENGINE = ("training/", "models/", "layers/", "config/", "data/", "test_utf8.py", "test_imports.py")

# Files and single tests that start programs, train until something is learnt, or compile: left out by
# `tools/test.sh --fast`. A few, alike to those of the same file that stay.
SLOW = """
    cli/test_nothing_lost.py
    cli/test_terminal.py
    cli/test_commands.py test_closed_standard_streams_are_told_of test_a_line_is_translated_without_pytorch
    cli/test_line_filter.py test_a_line_alone_is_answered_at_once_and_ctrl_c_is_quiet
    data/test_windows.py test_a_model_learns_a_text test_processes_share_one_run test_resume_is_bit_identical
    decoding/test_kernels.py test_a_machine_without_the_instructions_computes_the_same
    decoding/test_pytorch_engines.py test_the_captured_step_equals_plain_pytorch
    decoding/test_pytorch_engines.py test_the_captured_pass_equals_plain_steps
    decoding/test_scheduler_and_search.py test_the_repetition_guard_is_the_naive_one
    decoding/test_speculation_cpu.py test_texts_and_scores_are_to_the_last_bit_those_without_drafts
    speculative/test_build.py test_whose_table_is_taken
    speculative/test_table.py test_it_says_what_dictionaries_count
    storage/test_admission.py test_many_hypotheses_are_counted test_every_command_asks
    tools/test_draft_benchmarks.py test_an_engine_is_compared_with_itself
    tools/test_draft_benchmarks.py test_a_run_is_measured_with_and_without
    tools/test_fuzz.py
    tools/test_rival.py
    training/test_distributed_training.py
    training/test_kill.py
    training/test_run.py
    training/test_trainer.py test_a_full_disk_ends_nothing test_patience_and_plateau
    training/test_trainer.py test_the_average_is_validated_saved_and_resumed
    test_distributed.py
    test_jit.py test_processes_that_start_together_do_not_meet
"""


def slow() -> Iterator[tuple[str, frozenset[str]]]:
    """Files and their slow tests; none named: all of them."""
    for line in SLOW.strip().splitlines():
        file, *names = line.split()
        yield file, frozenset(names)


_SLOW: dict[str, frozenset[str]] = {}
for _file, _names in slow():
    _SLOW[_file] = _SLOW.get(_file, frozenset()) | _names


def is_slow(file: str, name: str) -> bool:
    """file: below tests/; name: the function's, without its parameters."""
    names = _SLOW.get(file)
    return names is not None and (not names or name in names)
