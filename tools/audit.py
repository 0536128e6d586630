"""List the licences of unitail's dependencies, and their known vulnerabilities if online.

    python tools/audit.py

Licences are listed for the packages of all extras and their transitive dependencies, as installed
here. The GPL or AGPL is an error, since such a package could not be shipped with this one. Then
`pip-audit`, if installed, queries the index for known vulnerabilities; without it or without a
network, the audit is skipped with a message. Vulnerabilities are listed, and are errors only with
--strict, so that one published tomorrow does not break a build that passes today.
"""

import json
import re
import socket
import subprocess
import sys
from collections import defaultdict
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from typing import Any

INDEX = ("pypi.org", 443)
SECONDS = 2.0
"""Timeout for connecting to the index."""
MAX_SECONDS = 120
"""Timeout of the audit of all packages."""
REFUSED = re.compile(r"(?<![lL])(?<!Lesser )\b(A?GPL|GNU (Affero )?General Public)")
NAME = re.compile(r"[\w.-]+")


def needed(root: str = "unitail") -> dict[str, Distribution]:
    """Return a package with all its extras and their dependencies, as far as installed."""
    installed: dict[str, Distribution] = {}
    waiting = [root]
    while waiting:
        name = _normal(waiting.pop())
        if name in installed:
            continue
        try:
            installed[name] = distribution(name)
        except PackageNotFoundError:  # an extra that is not installed, or for another platform
            continue
        for requirement in installed[name].requires or ():
            match = NAME.match(requirement)
            if match and (name == root or "extra ==" not in requirement):
                waiting.append(match[0])
    return installed


def licence_of(package: Distribution) -> str:
    """Return a short name of the licence that a package declares."""
    facts = package.metadata
    expression = _first(facts.get_all("License-Expression"))
    classified = [
        line.rsplit(" :: ", 1)[-1]
        for line in facts.get_all("Classifier") or ()
        if line.startswith("License :: ") and line != "License :: OSI Approved"
    ]
    text = _first(facts.get_all("License")).splitlines()
    return expression or ", ".join(classified) or (text[0][:60] if text else "not said")


def _first(values: list[str] | None) -> str:
    return values[0].strip() if values else ""


def licences(packages: dict[str, Distribution]) -> dict[str, list[str]]:
    """Return the names of packages by licence."""
    table: dict[str, list[str]] = defaultdict(list)
    for name, package in sorted(packages.items()):
        table[licence_of(package)].append(name)
    return dict(sorted(table.items()))


def audit() -> int:
    """Query the index for known vulnerabilities; return 1 if there are any, else 0."""
    if find_spec("pip_audit") is None:
        print("Not audited: pip-audit is not installed.")
        return 0
    try:
        socket.create_connection(INDEX, SECONDS).close()
    except OSError as error:
        print(f"Not audited: the index cannot be reached ({error}).")
        return 0
    command = [sys.executable, "-m", "pip_audit", "--skip-editable", "--format", "json",
               "--progress-spinner", "off"]  # fmt: skip
    try:
        result = subprocess.run(
            command, check=False, timeout=MAX_SECONDS, capture_output=True, text=True
        )
        return tell_holes(json.loads(result.stdout)["dependencies"])
    except subprocess.TimeoutExpired:
        print(f"Not audited: the index took more than {MAX_SECONDS} s.")
    except (ValueError, KeyError):
        print(f"Not audited: pip-audit says {result.stderr.strip().splitlines()[-1:]}.")
    return 0


def tell_holes(packages: list[dict[str, Any]]) -> int:
    """Print known vulnerabilities and the number of unknown packages; return 1 if any has one."""
    audited = [each for each in packages if "skip_reason" not in each]
    unknown = [each["name"] for each in packages if "not found" in each.get("skip_reason", "")]
    for each in audited:
        for hole in each["vulns"]:
            fixed = ", ".join(hole["fix_versions"]) or "no version"
            print(f"{each['name']} {each['version']}: {hole['id']}, fixed in {fixed}")
    holes = sum(bool(each["vulns"]) for each in audited)
    if audited:
        print(f"Audited {len(audited)} packages: {holes} with known holes.")
    if unknown:
        print(f"Not audited, as the index does not know them: {len(unknown)} packages.")
    return 1 if holes else 0


def main() -> None:
    """List licences, then audit."""
    table = licences(needed())
    for licence, names in table.items():
        print(f"{licence}: {', '.join(names)}")
    refused = [licence for licence in table if REFUSED.search(licence)]
    if refused:
        print(f"Packages under a licence that cannot be shipped beside: {refused}")
    holes = audit()
    sys.exit(1 if refused or (holes and "--strict" in sys.argv) else 0)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
