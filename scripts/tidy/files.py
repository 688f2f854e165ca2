"""The files that the rules read: those that git knows, and new ones that it does not ignore."""

import functools
import subprocess


@functools.cache
def listed(root):
    """Returns paths from the root, sorted."""
    command = ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sorted({line for line in output.splitlines() if (root / line).is_file()})


def ending(root, *ends):
    """Returns the listed paths with one of these endings."""
    return [path for path in listed(root) if path.endswith(ends)]
