//! A log whose content is known, with indexes that are anything: they change no answer.

use super::hurt::{Scope, hurt};
use super::input::Input;
use super::keeping::logs;
use super::log_dir::{LogDir, Opened, append};
use super::reading::{assert_all_found, read};

pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let dir = LogDir::new(&mut input);
    let mut frames = dir.build(&mut input).frames;
    let mut files = dir.files();
    hurt(&mut files, &mut input, Scope::Only("idx"));
    dir.put(&files);

    for round in 0..2 {
        let Opened { log, metrics } = dir.open().expect("an index is worth no failed start");
        let now = dir.files();
        assert_eq!(logs(&files), logs(&now), "no log is changed for the sake of its index");
        assert_eq!(metrics.torn_bytes.get(), 0);
        let found = read(&log, 1 << 20);
        assert!(found.is_clean && found.frames == frames, "everything is served");
        assert_all_found(&log, &frames);

        let mut run = Vec::new();
        for size in [0, 5000, 3] {
            let frame = hermitmq::record::FrameBuilder::new(9).record_count(round + 1);
            frame.write(&vec![b'a'; size], &mut run).unwrap();
        }
        frames.extend(append(&log, &mut run).unwrap());
        log.flush().unwrap();
        assert_all_found(&log, &frames);
        let scrubbed = log.scrub(&mut |_| true).unwrap();
        assert_eq!((scrubbed.damaged, scrubbed.summed), (0, 0));
        drop(log);
        files = dir.files();
    }
    let Opened { log, metrics } = dir.open().unwrap();
    assert_all_found(&log, &frames);
    assert_eq!(metrics.indexes_rebuilt.get(), 0, "what was wrong was made right");
}
