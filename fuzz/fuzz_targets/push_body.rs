//! The target `push_body` for libFuzzer; `bugle_fuzz::TARGETS` says what it is.

#![cfg_attr(fuzzing, no_main)]

bugle_fuzz::guided!("push_body");
