//! The target `index` for libFuzzer; `bugle_fuzz::TARGETS` says what it is.

#![cfg_attr(fuzzing, no_main)]

bugle_fuzz::guided!("index");
