"""A machine that boots systemd, for what is tried on one: Debian's files, in a container that is gone afterwards.

Needs root, mmdebstrap and systemd-nspawn. The files are fetched once and kept in the directory that CI_SCRATCH names; what a machine
writes goes to memory.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUITE = "trixie"
PACKAGES = "dbus,init-system-helpers,systemd,systemd-sysv"
# How long anything may take; a busy machine is no fault.
PATIENCE_S = 90


def files():
    """The directory of Debian's files; made anew when what is asked for here has changed."""
    wanted = hashlib.sha256(f"{SUITE} {PACKAGES}".encode()).hexdigest()[:12]
    scratch = pathlib.Path(os.environ.get("CI_SCRATCH", ROOT / "target/ci")).resolve()
    made = scratch / f"machine-{wanted}"
    if made.exists():
        return made
    for old in scratch.glob("machine-*"):
        shutil.rmtree(old)
    scratch.mkdir(parents=True, exist_ok=True)
    unfinished = scratch / f"machine-{wanted}.{os.getpid()}"
    print(f"fetching {SUITE} into {made}", flush=True)
    done = subprocess.run(
        ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", SUITE, unfinished],
        capture_output=True,
        text=True,
        timeout=1800,
    )
    if done.returncode != 0:
        shutil.rmtree(unfinished, ignore_errors=True)
        sys.exit(f"mmdebstrap: {done.stderr}")
    unfinished.rename(made)
    return made


class Machine:
    """A machine that has booted, to be used in a `with`. Its network is its own."""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp())
        # What is brought in: /in there.
        self.share = self.dir / "in"
        self.share.mkdir()
        nspawn = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot", "--console=pipe"]
        nspawn += ["--private-network", "--volatile=overlay", f"--bind-ro={self.share}:/in"]
        nspawn += [f"--machine=hermitmq-{os.getpid()}", f"--directory={files()}"]
        self.console = (self.dir / "console").open("wb")
        self.process = subprocess.Popen(
            # Where mounts are shared, those of the machine are not to be seen outside.
            ["unshare", "--mount", *nspawn],
            stdin=subprocess.DEVNULL,
            stdout=self.console,
            stderr=self.console,
            env=os.environ | {"SYSTEMD_LOG_LEVEL": "err"},
        )
        self.init = None

    def __enter__(self):
        try:
            self.init = self.until("it has a first process", self.first_process)
            state = lambda: self.run("systemctl", "is-system-running", check=False).stdout.strip() == "running"
            self.until("it has booted", state)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        # To nspawn this says: the machine is to go down.
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.console.close()
        shutil.rmtree(self.dir)

    def first_process(self):
        """The process that is 1 there; nspawn has others for a moment."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return next((pid for pid in children if pathlib.Path(f"/proc/{pid}/comm").read_text() == "systemd\n"), None)

    def bring(self, path, name=None):
        """Makes a file of this machine readable there; returns its path there."""
        name = name or pathlib.Path(path).name
        shutil.copy(path, self.share / name)
        return f"/in/{name}"

    def run(self, *command, check=True, text=None):
        """Runs a command there; `text` is its standard input."""
        done = subprocess.run(
            ["nsenter", f"--target={self.init}", "--all", *command],
            input=text or "",
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            # Nothing of this machine's own settings.
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        )
        if check and done.returncode != 0:
            self.fail(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def say(self, *command, **options):
        """What a command that succeeds there writes to standard output, without the last line's end."""
        return self.run(*command, **options).stdout.strip()

    def write(self, path, content):
        self.run("sh", "-c", 'mkdir -p "$(dirname "$0")" && cat > "$0"', path, text=content)

    def property(self, name, unit="hermitmq"):
        return self.say("systemctl", "show", "--value", f"--property={name}", unit)

    def journal(self, unit="hermitmq"):
        self.run("journalctl", "--sync")
        return self.say("journalctl", "--no-pager", "--output=cat", f"--unit={unit}")

    def until(self, what, condition):
        """The first result of the condition that is something."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            try:
                if found := condition():
                    return found
            except OSError:
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        self.fail(f"in vain for {PATIENCE_S} s: {what}")

    def fail(self, why):
        print(f"FAILED: {why}", file=sys.stderr)
        if self.init:
            print(subprocess.run(["nsenter", "-t", self.init, "-a", "journalctl", "--no-pager", "-n", "200"],
                                 capture_output=True, text=True).stdout, file=sys.stderr)
        sys.exit(1)

    def check(self, holds, why):
        if not holds:
            self.fail(why)
