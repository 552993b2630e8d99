"""Say in one line what this machine lacks. Runs on any Python 3, before anything is installed."""

import re
import shutil
import subprocess
import sys


def problem():
    """What is missing and how to get it; None when nothing is."""
    if sys.version_info < (3, 11):
        version = ".".join(map(str, sys.version_info[:3]))
        return "Python 3.11 or newer is needed, this is %s: install one, then `make PYTHON=python3.11 ...`" % version
    how = "install a JDK (Debian: `apt-get install openjdk-17-jdk-headless`; macOS: `brew install openjdk@17`)"
    if not shutil.which("java"):
        return "Java 17 or newer is needed and `java` is not on the PATH: " + how
    said = subprocess.run(["java", "-version"], stderr=subprocess.PIPE, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if not version or int(version.group(1)) < 17:
        return "Java 17 or newer is needed, `java -version` says %r: %s" % (said.split("\n")[0], how)
    return None


if __name__ == "__main__":
    sys.exit(problem())
