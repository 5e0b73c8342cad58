//! Files of control groups, as kernels and container engines present them.

use std::collections::HashMap;
use std::path::Path;

use super::{Container, Cpus, Memory, limit_v1, limit_v2, quota_v1, quota_v2};

fn container(files: &[(&str, &str)], allowed: u32) -> Container {
    let files: HashMap<&str, &str> = files.iter().copied().collect();
    let read = |path: &Path| files.get(path.to_str().unwrap()).map(|&text| text.to_owned());
    Container::of(&read, Some(allowed))
}

fn cpus(count: u32, source: &str) -> Cpus {
    Cpus { count, source: source.to_owned() }
}

fn memory(bytes: u64, source: &str) -> Memory {
    Memory { bytes, source: source.to_owned() }
}

#[test]
fn version_2_in_a_container_of_its_own_namespace() {
    let files = [
        ("/proc/self/cgroup", "0::/\n"),
        ("/sys/fs/cgroup/cpu.max", "150000 100000\n"),
        ("/sys/fs/cgroup/memory.max", "134217728\n"),
    ];
    let found = container(&files, 8);
    assert_eq!(found.cpus.unwrap(), cpus(2, "cpu quota 1.5 of cgroup v2"));
    assert_eq!(found.memory.unwrap(), memory(128 << 20, "memory limit 128 MiB of cgroup v2"));
    assert_eq!(
        container(&files, 1).cpus.unwrap(),
        cpus(1, "processors available"),
        "fewer than the quota"
    );
}

#[test]
fn the_smallest_limit_of_the_groups_around_it_counts() {
    let files = [
        ("/proc/self/cgroup", "0::/system.slice/hermitmq.service\n"),
        ("/sys/fs/cgroup/system.slice/hermitmq.service/cpu.max", "max 100000\n"),
        ("/sys/fs/cgroup/system.slice/hermitmq.service/memory.max", "1073741824\n"),
        ("/sys/fs/cgroup/system.slice/cpu.max", "25000 100000\n"),
        ("/sys/fs/cgroup/system.slice/memory.max", "536870912\n"),
    ];
    let found = container(&files, 8);
    assert_eq!(found.cpus.unwrap(), cpus(1, "cpu quota 0.25 of cgroup v2"));
    assert_eq!(found.memory.unwrap(), memory(512 << 20, "memory limit 512 MiB of cgroup v2"));
}

#[test]
fn version_1_with_its_controllers_mounted_alone_or_together() {
    let groups =
        "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n1:name=systemd:/docker/abc\n0::/\n";
    let files = [
        ("/proc/self/cgroup", groups),
        // The path is that of the host; within the container its own group is the root.
        ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n"),
        ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "67108865\n"),
    ];
    let found = container(&files, 4);
    assert_eq!(found.cpus.unwrap(), cpus(3, "cpu quota 3 of cgroup v1"));
    assert_eq!(
        found.memory.unwrap(),
        memory((64 << 20) + 1, "memory limit 67108865 bytes of cgroup v1")
    );
}

#[test]
fn no_limit_is_none() {
    let files = [
        ("/proc/self/cgroup", "4:memory:/\n2:cpu:/\n"),
        ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
        ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
    ];
    let found = container(&files, 4);
    assert_eq!((found.cpus, found.memory), (Some(cpus(4, "processors available")), None));
    assert_eq!(container(&[], 4).memory, None);
}

#[test]
fn what_is_no_number_is_no_limit() {
    for text in ["", "max", "-1", "0", "1e9", "99999999999999999999999"] {
        assert_eq!((limit_v1(text), limit_v2(text)), (None, None), "{text:?}");
        assert_eq!(quota_v1(text, "100000"), None, "{text:?}");
        assert_eq!(quota_v1("100000", text), None, "{text:?}");
        assert_eq!(quota_v2(text), None, "{text:?}");
    }
    assert_eq!(quota_v2("max 100000"), None);
}

#[test]
fn a_path_above_the_root_is_not_followed() {
    let files =
        [("/proc/self/cgroup", "0::/../../other\n"), ("/sys/fs/cgroup/memory.max", "4096\n")];
    assert_eq!(
        container(&files, 1).memory.unwrap(),
        memory(4096, "memory limit 4096 bytes of cgroup v2")
    );
}
