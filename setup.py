"""The repository root is the package: setuptools needs to be told so, everything else is in pyproject.toml."""

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

OUTSIDE = ("tests", "tests.*", "benchmarks", "benchmarks.*", "docs", "build", "build.*")


class BuildPy(build_py):
    """Builds the package without this file, which stands in the package's folder but is not part of it."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        return [m for m in super().find_package_modules(package, package_dir) if m[1] != "setup"]


setup(
    cmdclass={"build_py": BuildPy},
    package_dir={"kernelswarm": "."},
    packages=["kernelswarm", *(f"kernelswarm.{name}" for name in find_packages(exclude=OUTSIDE))],
    package_data={
        "kernelswarm": ["py.typed"],
        "kernelswarm.hardware.machine": ["peaks.cpp"],
        "kernelswarm.hardware.pools": ["*.toml"],
        "kernelswarm.hardware.harness": ["keep.cpp"],
        "kernelswarm.agents.synthesizer.model": ["prices.toml"],
        "kernelswarm.knowledge": ["corpus/**/*.md", "shipped_skills/*.md"],
        "kernelswarm.sessions.outside": ["*.md"],
        "kernelswarm.store": ["*.sql", "**/*.sql"],
    },
)
