#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| roost_tests::fuzz::tak_events(bytes));
