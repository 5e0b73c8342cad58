//! File systems of a test's own: a small ext4 in a file on a tmpfs, which can lose its power.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::{HANG, scratch, wait_for};

/// What a [`Volume`] needs.
pub const VOLUME_TOOLS: [&str; 5] = ["mount", "umount", "mkfs.ext4", "truncate", "perl"];

fn run<S: AsRef<OsStr>>(program: &str, args: &[S]) -> Result<(), String> {
    let mut command = Command::new(program);
    let output = command.args(args).output().map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// Whether there is a loop device with this file behind it.
fn is_attached(image: &Path) -> bool {
    let devices = std::fs::read_dir("/sys/block").unwrap().flatten();
    let files = devices.map(|device| device.path().join("loop/backing_file"));
    let mut files = files.filter_map(|file| std::fs::read_to_string(file).ok());
    files.any(|file| Path::new(file.trim_end()) == image)
}

/// A mounted file system; unmounted when dropped.
#[derive(Debug)]
struct Mount {
    dir: PathBuf,
    mounted: bool,
}

impl Mount {
    fn new(dir: PathBuf, args: &[&OsStr]) -> Self {
        std::fs::create_dir_all(&dir).unwrap();
        let args: Vec<&OsStr> = args.iter().copied().chain([dir.as_os_str()]).collect();
        run("mount", &args).unwrap();
        Self { dir, mounted: true }
    }

    fn unmount(&mut self) -> Result<(), String> {
        let start = Instant::now();
        // A process that was just killed may hold it for a moment.
        while let Err(error) = run("umount", &[&self.dir]) {
            if start.elapsed() > HANG / 10 {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.mounted = false;
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.mounted
            && let Err(error) = self.unmount()
        {
            eprintln!("{error}");
            let _ = run("umount", &[OsStr::new("-l"), self.dir.as_os_str()]);
        }
    }
}

/// An ext4 of its own. Fields are dropped in their order: what is on top first.
#[derive(Debug)]
pub struct Volume {
    ext4: Option<Mount>,
    image: PathBuf,
    tmpfs: Mount,
    dir: tempfile::TempDir,
}

impl Volume {
    /// An ext4 of that many MiB.
    pub fn new(mib: u32) -> Self {
        Self::thin(mib, mib + 8)
    }

    /// An ext4 that believes to have `mib` MiB, on a medium with room for `backed` of them.
    pub fn thin(mib: u32, backed: u32) -> Self {
        let (dir, _) = scratch();
        let size = format!("size={backed}m");
        let tmpfs = ["-t", "tmpfs", "-o", &size, "hermitmq-test"].map(OsStr::new);
        let tmpfs = Mount::new(dir.path().join("medium"), &tmpfs);
        let image = tmpfs.dir.join("image");
        let mut volume = Self { ext4: None, image, tmpfs, dir };
        let bytes = format!("{mib}M");
        run("truncate", &[OsStr::new("-s"), OsStr::new(&bytes), volume.image.as_os_str()]).unwrap();
        volume.format();
        volume
    }

    /// An empty file system again. Nothing may have a file open.
    pub fn format(&mut self) {
        self.unmount();
        // No lazy work in the background, no room for root alone.
        let options =
            ["-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"];
        let args: Vec<&OsStr> =
            options.iter().map(OsStr::new).chain([self.image.as_os_str()]).collect();
        run("mkfs.ext4", &args).unwrap();
        self.mount();
    }

    fn mount(&mut self) {
        let options = ["-t", "ext4", "-o", "loop"].map(OsStr::new);
        let args: Vec<&OsStr> = options.into_iter().chain([self.image.as_os_str()]).collect();
        self.ext4 = Some(Mount::new(self.dir.path().join("ext4"), &args));
    }

    /// The root of the file system.
    pub fn path(&self) -> &Path {
        &self.ext4.as_ref().expect("mounted").dir
    }

    /// A data directory on it.
    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// Cuts the power: what was not made durable is gone, and nothing can be read or written until [`Volume::remount`].
    pub fn cut(&self) {
        // EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH.
        let script = "open(my $dir, '<', $ARGV[0]) or die $!; my $how = pack('L', 2); \
                      ioctl($dir, 0x8004587d, $how) or die $!";
        run("perl", &[OsStr::new("-e"), OsStr::new(script), self.path().as_os_str()]).unwrap();
    }

    /// Unmounts and mounts again, with an empty cache. Nothing may have a file open.
    pub fn remount(&mut self) {
        self.unmount();
        self.mount();
    }

    /// Twice mounted, the image would be destroyed: better to fail. A mount namespace that was made meanwhile (a container's)
    /// keeps what is mounted, with its power cut: then it is waited for.
    fn unmount(&mut self) {
        if let Some(mut mount) = self.ext4.take() {
            mount.unmount().unwrap();
            wait_for("nobody else to have the volume", || {
                (!is_attached(&self.image)).then_some(())
            });
        }
    }

    /// Takes the right to write, or gives it back.
    pub fn set_read_only(&self, read_only: bool) {
        let options = if read_only { "remount,ro" } else { "remount,rw" };
        run("mount", &[OsStr::new("-o"), OsStr::new(options), self.path().as_os_str()]).unwrap();
    }

    /// Gives the medium room for `mib` MiB.
    pub fn enlarge_medium(&self, mib: u32) {
        let size = format!("remount,size={mib}m");
        run("mount", &[OsStr::new("-o"), OsStr::new(&size), self.tmpfs.dir.as_os_str()]).unwrap();
    }

    /// Bytes that can still be written.
    pub fn free(&self) -> u64 {
        let stat = rustix::fs::statvfs(self.path()).unwrap();
        stat.f_bavail * stat.f_frsize
    }

    /// Takes all space but `leave` bytes; it is given back when the file is removed.
    pub fn fill(&self, leave: u64) -> Ballast {
        let path = self.path().join("ballast");
        let file = std::fs::File::create(&path).unwrap();
        let mut step = self.free().saturating_sub(leave) & !4095;
        let mut len = 0;
        while step >= 1024 && self.free() > leave {
            match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), len, step) {
                Ok(()) => len += step,
                Err(_) => step /= 2,
            }
            step = step.min(self.free().saturating_sub(leave)).max(512);
        }
        Ballast(path)
    }
}

/// A file that takes space.
#[derive(Debug)]
pub struct Ballast(PathBuf);

impl Ballast {
    pub fn remove(self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}
