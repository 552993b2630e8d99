"""Say in one line what this machine lacks. Runs on any Python 3, before anything is installed."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys

PIP = os.path.join(".venv", "bin", "pip")


def problem():
    """A line that says what is missing and how to get it; None when nothing is."""
    return python_problem() or java_problem()


def python_problem():
    """The problem with this Python; None when there is none."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < (3, 11):
        return (
            "Python 3.11 or newer is needed, this is %s: install one, then `make "
            "PYTHON=python3.11 ...`"
        ) % version
    # Debian packs what venv needs for pip apart. A virtual environment that has pip does without.
    if not os.access(PIP, os.X_OK) and not importlib.util.find_spec("ensurepip"):
        return (
            "Python %s is here without ensurepip, which venv needs: `apt-get install "
            "python%d.%d-venv`"
        ) % (
            version,
            *sys.version_info[:2],
        )
    return None


def java_problem():
    """The problem with the Java that Spark and the local cluster take: JAVA_HOME's, or PATH's."""
    how = (
        "install a JDK (Debian: `apt-get install openjdk-17-jdk-headless`; macOS: `brew install "
        "openjdk@17`)"
    )
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    if not shutil.which(java):
        where = (
            "JAVA_HOME is %s, which has no bin/java" % home if home else "`java` is not on the PATH"
        )
        return "Java 17 or newer is needed and %s: %s" % (
            where,
            how + (", or unset JAVA_HOME" if home else ""),
        )
    said = subprocess.run([java, "-version"], stderr=subprocess.PIPE, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if not version or int(version.group(1)) < 17:
        return "Java 17 or newer is needed, `%s -version` says %r: %s" % (
            java,
            said.split("\n")[0],
            how,
        )
    return None


if __name__ == "__main__":
    sys.exit(problem())
