"""How Sphinx builds these pages: ``make docs``. Nothing is fetched, neither by the build nor by the pages."""

from __future__ import annotations

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger
from sphinx.writers.html5 import HTML5Translator

import minframe

LOGGER = getLogger(__name__)

project = "minframe"
author = "The minframe developers"
copyright = author
version = release = minframe.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build", "figures"]
nitpicky = True
# Names of other packages, of type variables, and of base classes that are no part of the public surface.
nitpick_ignore_regex = [
    ("py:.*", r"(torch|typing|collections|ase|numpy|torch_geometric)\b.*"),
    ("py:class", r"(minframe\..*\.)?[A-Z]\w*"),
]

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
add_module_names = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = "minframe"
html_static_path = ["_static"]
html_css_files = ["minframe.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_theme_options = {
    "source_repository": "https://github.com/minframe/minframe/",
    "source_branch": "main",
    "source_directory": "docs/",
}


def mathml(node: nodes.Node, tex: str, as_block: bool) -> str:
    """A formula; a warning, which is an error here, if it has what MathML has no name for."""
    try:
        return latex2mathml.tex2mathml(tex, as_block=as_block)
    except MathError as error:
        LOGGER.warning("formula %r: %s", tex, error, location=node)
        return ""


def inline_math(translator: HTML5Translator, node: nodes.math) -> None:
    """MathML, which browsers draw themselves: no script and no font is loaded."""
    translator.body.append(mathml(node, node.astext(), as_block=False))
    raise nodes.SkipNode


def display_math(translator: HTML5Translator, node: nodes.math_block) -> None:
    """The same for a formula on a line of its own."""
    environment = "aligned" if "\\\\" in node.astext() else None
    text = f"\\begin{{{environment}}}{node.astext()}\\end{{{environment}}}" if environment else node.astext()
    translator.body.append(f'<div class="math">{mathml(node, text, as_block=True)}</div>\n')
    raise nodes.SkipNode


def tables(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Docstrings have tables with ``|``, which terminals show well; Sphinx is given them as list tables."""
    out: list[str] = []
    for number, line in enumerate(lines):
        if not line.startswith("|"):
            out.append(line)
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not lines[number - 1].startswith("|"):
            out += [".. list-table::", "   :header-rows: 1", ""]
        if not all(set(cell) <= {"-"} and cell for cell in cells):
            out += [f"   {'* -' if i == 0 else '  -'} {cell}" for i, cell in enumerate(cells)]
    lines[:] = out


def fields(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    """Fields of named tuples are described under their class; by themselves they only say their number."""
    return True if type(obj).__name__ == "_tuplegetter" else None


def setup(app: Sphinx) -> None:
    """Register the renderer of formulas, and that of tables in docstrings, before napoleon sees them."""
    app.connect("autodoc-skip-member", fields)
    app.connect("autodoc-process-docstring", tables, priority=100)
    app.add_html_math_renderer("mathml", inline_renderers=(inline_math, None), block_renderers=(display_math, None))
