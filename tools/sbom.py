"""Write the bill of materials of this package, in CycloneDX's form: what is installed with it and
all of its extras, and the jars of Delta.

python -m tools.sbom FILE
"""

import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.bom_ref import BomRef
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from kafka_metadata_history.jars.delta import LICENCE, MODULES
from kafka_metadata_history.jars.fetch import CHECKSUMS
from tools.licences import EXTRAS, PACKAGE, licence, needed

PROJECT: Final = Path(__file__).resolve().parent.parent / "pyproject.toml"


def main(file: str) -> None:
    """Write it. Raises LicenceError for a package that does not say what its licence is."""
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    JsonV1Dot6(bill()).output_to_file(file, allow_overwrite=True, indent=1)


def bill() -> Bom:
    """Return it, from what is installed: `make lock` holds that against constraints.txt. What an
    extra alone brings is optional. PySpark's own jars are not listed apart from PySpark.
    """
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    base, asking = needed(frozenset()), needed(frozenset(EXTRAS))
    packages = {
        name: _package(name, is_optional=name not in base)
        for name in sorted(asking.keys() - {PACKAGE})
    }
    own = Component(
        name=PACKAGE,
        version=project["version"],
        type=ComponentType.APPLICATION,
        bom_ref=BomRef(PACKAGE),
        licenses=[LicenseFactory().make_from_string(project["license"])],
    )
    jars = [_jar(*each) for each in MODULES]
    made = Bom(components=[*packages.values(), *jars])
    made.metadata.component = own
    made.register_dependency(own, [*(packages[name] for name in sorted(asking[PACKAGE])), *jars])
    for name, component in packages.items():
        made.register_dependency(component, [packages[each] for each in sorted(asking[name])])
    return made


def _package(name: str, *, is_optional: bool) -> Component:
    package = distribution(name)
    return Component(
        name=name,
        version=package.version,
        type=ComponentType.LIBRARY,
        scope=ComponentScope.OPTIONAL if is_optional else ComponentScope.REQUIRED,
        bom_ref=BomRef(name),
        purl=PackageURL("pypi", name=name, version=package.version),
        licenses=[LicenseFactory().make_from_string(licence(package))],
    )


def _jar(organisation: str, module: str, revision: str) -> Component:
    known = dict(reversed(line.split("  ")) for line in CHECKSUMS.read_text("utf-8").splitlines())
    return Component(
        group=organisation,
        name=module,
        version=revision,
        type=ComponentType.LIBRARY,
        scope=ComponentScope.REQUIRED,
        bom_ref=BomRef(f"{organisation}:{module}"),
        purl=PackageURL("maven", organisation, module, revision),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=known[f"{module}-{revision}.jar"])],
        licenses=[LicenseFactory().make_from_string(LICENCE)],
    )


if __name__ == "__main__":
    main(sys.argv[1])
