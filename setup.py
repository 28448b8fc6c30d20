"""The part of the build that depends on whether there is a C compiler; all else is in ``pyproject.toml``.

The extension is optional. Where it cannot be built, an older binary must not take its place, and the wheel holds
nothing but Python: it is tagged as one that runs everywhere.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext


class FreshExtension(build_ext):
    """Removes what an earlier build left, before it builds."""

    def run(self) -> None:
        wanted, self.inplace = self.inplace, 0
        for inplace in {0, wanted}:
            self.inplace = inplace
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
        self.inplace = wanted
        super().run()


class Wheel(bdist_wheel):
    """Tagged by what it holds."""

    def get_tag(self) -> tuple[str, str, str]:
        built = Path(self.get_finalized_command("build").build_lib)
        if any(built.glob("minframe/**/*.so")) or any(built.glob("minframe/**/*.pyd")):
            return super().get_tag()
        self.root_is_pure = True
        return "py3", "none", "any"


setup(cmdclass={"build_ext": FreshExtension, "bdist_wheel": Wheel})
