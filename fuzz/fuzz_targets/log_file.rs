//! The target `log_file` for libFuzzer; `bugle_fuzz::TARGETS` says what it is.

#![cfg_attr(fuzzing, no_main)]

bugle_fuzz::guided!("log_file");
