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
    analysis/test_card.py test_a_measured_card
    analysis/test_properties.py test_operations_grow_as_claimed test_paths_are_as_long_as_claimed
    cli/test_commands.py test_closed_standard_streams_are_told_of test_a_line_is_translated_without_pytorch
    cli/test_line_filter.py test_a_closed_pipe_is_quiet test_strict_ends_while_the_input_is_open
    cli/test_line_filter.py test_a_line_alone_is_answered_at_once_and_ctrl_c_is_quiet
    cli/test_line_filter.py test_processes_answer_a_line_at_once
    cli/test_line_filter.py test_processes_wait_for_a_late_line test_processes_answer_as_one
    cli/test_line_filter.py test_shown_while_decoded_it_is_the_same test_ctrl_c_in_the_middle_is_quiet
    cli/test_line_filter.py test_stream_and_file_answer_the_same
    cli/test_nothing_lost.py
    cli/test_terminal.py
    config/test_presets.py test_decoder_weights test_one_embedding_width
    config/test_presets.py test_decoder_weights_without_a_source
    config/test_presets.py test_receptive_field_is_wide_enough_for_bytes
    documents/test_growth.py test_hostile_documents_take_no_minutes
    data/test_augment.py test_processes_learn_the_same test_resume_is_bit_identical
    data/test_corpus.py test_chunk_borders
    data/test_decompress.py test_lines_are_read_as_they_are_unpacked
    data/test_stream.py test_the_number_of_processes_may_change
    data/test_windows.py test_a_model_learns_a_text test_processes_share_one_run test_resume_is_bit_identical
    data/test_windows.py test_validation_is_prediction
    decoding/test_beam_search.py test_no_beam_is_below_greedy_on_a_confident_model
    decoding/test_kernels.py test_a_machine_without_the_instructions_computes_the_same
    decoding/test_kernels.py test_spans_compute_what_they_are_called_for
    decoding/test_preloading.py
    decoding/test_pytorch_engines.py test_fixed_places_equal_plain_pytorch
    decoding/test_pytorch_engines.py test_the_captured_pass_equals_plain_steps
    decoding/test_pytorch_engines.py test_the_captured_step_equals_plain_pytorch
    decoding/test_sampling.py test_bytes_are_drawn_with_their_probabilities
    decoding/test_sampling.py test_sampled_texts_are_the_naive_ones
    decoding/test_scheduler_and_search.py test_the_repetition_guard_is_the_naive_one
    decoding/test_speculation.py test_a_price_is_measured_once test_drafts_change_nothing_at_fixed_places
    decoding/test_speculation.py test_drafts_leave_the_distribution_as_it_is
    decoding/test_speculation_cpu.py test_texts_and_scores_are_to_the_last_bit_those_without_drafts
    decoding/test_speculation_cpu.py test_what_is_drafted_is_what_the_table_says
    decoding/test_translator.py test_order_is_kept_and_mates_change_nothing
    decoding/test_translator.py test_processes_answer_as_one
    evaluation/test_scores.py test_processes_score_as_one
    language/test_surprisal.py test_random_bytes_cost_eight_bits test_a_leak_is_noticed
    language/test_surprisal.py test_stream_equals_whole
    models/test_reference.py test_weight_norm_memo_after_an_optimizer_step
    scale/test_ray.py
    scale/test_workers.py test_the_output_is_that_of_one_process
    serve/test_page.py
    serve/test_server.py
    speculative/test_build.py test_whose_table_is_taken test_drafts_change_nothing_but_the_passes
    speculative/test_table.py test_it_says_what_dictionaries_count
    storage/test_admission.py test_many_hypotheses_are_counted test_every_command_asks
    storage/test_parameters.py test_presets_too
    tools/test_bench.py test_random_sentences_never_end
    tools/test_distil.py test_teachers_and_their_pairs
    tools/test_draft_benchmarks.py test_a_run_is_measured_with_and_without
    tools/test_draft_benchmarks.py test_an_engine_is_compared_with_itself
    tools/test_fuzz.py
    tools/test_length_penalty.py
    tools/test_reproduce.py test_rows_are_trained_scored_and_told
    tools/test_sample.py test_copying_the_nearest_pair_is_no_answer
    tools/test_sample.py test_no_held_out_date_or_time_is_written_in_training
    tools/test_widen.py test_a_wider_model_computes_what_it_did
    tools/test_rival.py
    tools/test_forks_and_bursts.py
    training/test_distributed_training.py
    training/test_init_from.py test_processes_begin_with_the_same
    training/test_kill.py
    training/test_older_runs.py
    training/test_run.py
    training/test_trainer.py test_a_full_disk_ends_nothing test_patience_and_plateau
    training/test_trainer.py test_pictures_and_tensorboard test_summed_batches_are_one
    training/test_trainer.py test_the_average_is_validated_saved_and_resumed
    training/test_validation.py
    test_distributed.py
    test_jit.py test_processes_that_start_together_do_not_meet
    test_utf8.py test_planted_faults_are_found
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
