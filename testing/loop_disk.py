"""An ext4 file system of its own on a loop device, whose power can fail. Needs root and a kernel that allows loop mounts."""

import ctypes
import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

EXT4_IOC_SHUTDOWN = 0x8004587D  # _IOR('X', 125, __u32)
GOING_FLAGS_NOLOGFLUSH = 2  # neither data nor journal reach the device any more


def run(*command):
    subprocess.run(command, check=True, capture_output=True)


class LoopDisk:
    """`path` is the root of the mounted file system."""

    def __init__(self, megabytes):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="arbor-disk-"))
        self.image, self.path = self.directory / "image", self.directory / "mounted"
        self.path.mkdir()
        with open(self.image, "wb") as image:
            image.truncate(megabytes << 20)
        run("mkfs.ext4", "-q", "-m", "0", str(self.image))
        self.mount()

    def mount(self):
        run("mount", "-o", "loop", str(self.image), str(self.path))

    def unmount(self, wait_s=10):
        """Unmounts as soon as no process uses the file system."""
        deadline = time.monotonic() + wait_s
        while subprocess.run(["umount", str(self.path)], capture_output=True).returncode:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.path} stays busy")
            time.sleep(0.02)

    def fail_under(self, process):
        """Loses what was not synced, and ends the process. It is stopped a moment before: ext4 may return success from an fsync
        that is under way while its journal is aborted, and such a success must not reach a client."""
        process.send_signal(signal.SIGSTOP)
        while any_thread_runs(process.pid):
            time.sleep(0.0001)
        self.cut_power()
        process.kill()
        process.wait()
        self.restore_power()

    def cut_power(self):
        """Every write that was not synced is lost from here on; calls on the file system fail until `restore_power`."""
        root = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(root, EXT4_IOC_SHUTDOWN, ctypes.c_uint32(GOING_FLAGS_NOLOGFLUSH))
        finally:
            os.close(root)

    def restore_power(self):
        """Mounts the file system as the device holds it. Requires that no process uses it."""
        self.unmount()
        self.mount()

    def remove(self):
        self.unmount()
        shutil.rmtree(self.directory)


def any_thread_runs(pid):
    """Whether a thread is neither stopped nor inside a system call that cannot be interrupted."""
    tasks = pathlib.Path(f"/proc/{pid}/task").glob("*/stat")
    return any(task.read_text().rpartition(")")[2].split()[0] not in "TD" for task in tasks)


def is_allowed():
    """Whether this machine lets us mount a loop device and cut its power."""
    try:
        disk = LoopDisk(16)
    except (OSError, subprocess.CalledProcessError):
        return False
    try:
        disk.cut_power()
        disk.restore_power()
        return True
    except OSError:
        return False
    finally:
        disk.remove()
