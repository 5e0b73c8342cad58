#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hermitmq_fuzz::targets::access_rules::run(data));
