//! Tests of `cli::output`.

use super::*;

#[test]
fn durations_and_sizes_read_as_the_configuration_writes_them() {
    for (millis, text) in
        [(0, "0ms"), (250, "250ms"), (1500, "1500ms"), (30_000, "30s"), (90_000, "90s"), (604_800_000, "7d")]
    {
        assert_eq!(duration(Duration::from_millis(millis)), text);
    }
    for (bytes, text) in [(0, "0B"), (1500, "1500B"), (1024, "1KiB"), (1 << 20, "1MiB"), (3 << 30, "3GiB")] {
        assert_eq!(size(bytes), text);
    }
}
