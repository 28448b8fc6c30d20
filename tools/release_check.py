"""Build the library as it would be released, install it where nothing else is, and run the README there.

    python tools/release_check.py

Builds the sdist, and the wheel from it. The wheel may hold nothing but the library and need nothing but PyTorch. It is
installed in a new environment, without NumPy and without a labelling library, where all Python code of the README runs.
Where there is no C compiler, the wheel must hold no binary, in particular none of an earlier build, and run everywhere.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from email import message_from_string
from pathlib import Path

ROOT = Path(__file__).parent.parent
TORCH = "torch==2.13.0"  # as in the Makefile, so that no other package chooses a build of it
ABSENT = ("numpy", "igraph", "pynauty", "matplotlib", "typer", "minframe_lab")
FOREIGN = re.compile(r"minframe_lab|experiment|report|plot|bench|results|tests/|\.(png|css|pt|json)$")


def run(*command: str | Path, cwd: Path | None = None, **variables: str) -> str:
    """The output of a command; its errors, and an end, if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run(
        [str(c) for c in command], cwd=cwd, capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode:
        sys.exit(f"release check: {' '.join(map(str, command))} failed\n{done.stdout}{done.stderr}")
    return done.stdout


def check(holds: bool, message: str) -> None:
    """Say what was looked at; end if it is not so."""
    if not holds:
        sys.exit(f"release check: FAILED: {message}")
    print(f"release check: {message}", flush=True)


def built(folder: Path) -> tuple[Path, Path]:
    """The sdist and the wheel."""
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))


def check_wheel(wheel: Path) -> None:
    """Nothing foreign in it, and PyTorch alone required."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(n for n in names if n.endswith(".dist-info/METADATA"))
        required = message_from_string(archive.read(metadata).decode()).get_all("Requires-Dist") or []
    inside = [n for n in names if ".dist-info/" not in n]
    foreign = [n for n in inside if not n.startswith("minframe/") or FOREIGN.search(n)]
    check(not foreign, f"the wheel has {len(inside)} files, none of them foreign {foreign or ''}")
    plain = [r for r in required if "extra ==" not in r]
    check(len(plain) == 1 and plain[0].startswith("torch"), f"it requires {', '.join(plain)}")
    check("minframe/py.typed" in names, "it is typed")
    sources = [n for n in inside if n.endswith((".c", ".h"))]
    check(not sources, f"no source in C is installed {sources or ''}")


def check_sdist(sdist: Path) -> None:
    """What tests and readers need is in it."""
    with tarfile.open(sdist) as archive:
        names = {m.name.partition("/")[2] for m in archive.getmembers()}
    tracked = run("git", "ls-files", "src", "tests", "examples", "docs", cwd=ROOT).split()
    missing = [n for n in ("CHANGELOG.md", "conftest.py", *tracked) if n not in names]
    check(not missing, f"the sdist has {len(names)} files, all of src, tests, examples and docs {missing or ''}")
    check(not any(n.endswith((".so", ".pyd")) for n in names), "no binary among them")


def check_without_compiler(sdist: Path, folder: Path) -> None:
    """A wheel built where an earlier build left binaries, but without a compiler."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    source = next(path for path in folder.iterdir() if path.is_dir())
    wheel = (sys.executable, "-m", "build", "--wheel")
    run(*wheel, "--outdir", folder / "with", source)
    for binary in (source / "build").rglob("*_native*"):
        if binary.suffix in (".so", ".pyd"):
            shutil.copy(binary, source / "src" / "minframe" / "linalg")
    run(*wheel, "--outdir", folder / "without", source, CC="/bin/false")
    found = next((folder / "without").glob("*.whl"))
    with zipfile.ZipFile(found) as archive:
        binaries = [n for n in archive.namelist() if n.endswith((".so", ".pyd"))]
    check(not binaries, f"without a compiler no old binary is packed {binaries or ''}")
    check(found.name.endswith("-py3-none-any.whl"), f"and the wheel runs everywhere: {found.name}")


def readme_blocks(sdist: Path) -> list[str]:
    """The Python code of the README that is released."""
    with tarfile.open(sdist) as archive:
        member = next(m for m in archive.getmembers() if re.fullmatch(r"[^/]+/README\.md", m.name))
        file = archive.extractfile(member)
        assert file is not None
        return re.findall(r"```python\n(.*?)```", file.read().decode(), re.DOTALL)


def main() -> None:
    """All of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sdist, wheel = built(folder / "dist")
        check(True, f"built {sdist.name} and {wheel.name}")
        check_sdist(sdist)
        check_wheel(wheel)
        check_without_compiler(sdist, folder / "source")
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / "bin" / "python"
        install = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*install, TORCH)
        run(*install, wheel)
        probe = f"import importlib.util as u; print(*[n for n in {ABSENT} if u.find_spec(n)])"
        present = run(python, "-c", probe, cwd=folder).split()
        check(not present, f"the environment is without {', '.join(ABSENT)} {present or ''}")
        strict = "import warnings; warnings.filterwarnings('error', '.*since it was compiled'); import minframe"
        run(python, "-c", strict, cwd=folder)
        check(True, "what was compiled is used")
        blocks = readme_blocks(sdist)
        script = folder / "readme.py"
        script.write_text("\n".join(blocks))
        run(python, script, cwd=folder)
        check(len(blocks) > 0, f"README: {len(blocks)} blocks of code ran")


if __name__ == "__main__":
    main()
