"""The documentation site: `make docs` builds it, without a network, into docs/_build/html."""

from importlib.metadata import version as version_of

from sphinx_gallery.sorting import FileNameSortKey

project = "mmtfl"
author = "the mmtfl authors"
project_copyright = author
version = release = version_of("mmtfl")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
]
exclude_patterns = ["_build", "generated/**/*.ipynb", "generated/**/*.py", "**/*.md5"]
nitpicky = False
suppress_warnings = ["config.cache"]  # the gallery's sort key is a class

# -- pages ---------------------------------------------------------------------------------------------------

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_fence_as_directive = ["math"]  # ```math, as other readers of Markdown have it
myst_heading_anchors = 4
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# -- reference -----------------------------------------------------------------------------------------------

autosummary_generate = True
autodoc_default_options = {"members": True, "inherited-members": True}
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# -- tutorials and gallery -----------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": ["../examples/tutorials", "../examples/gallery"],
    "gallery_dirs": ["generated/tutorials", "generated/gallery"],
    "filename_pattern": r"/plot_",
    "within_subsection_order": FileNameSortKey,
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 3600,
    "show_signature": False,
    "write_computation_times": False,  # a page of times would fetch scripts from the network
    "ignore_repr_types": r"matplotlib\..*|mmtfl\.plots.*",
    "remove_config_comments": True,
    "backreferences_dir": "generated/uses",
    "doc_module": ("mmtfl",),
    "image_srcset": ["2x"],
    "first_notebook_cell": "# In a checkout: pip install '.[cli]'\n%matplotlib inline",
}

# -- look ----------------------------------------------------------------------------------------------------

templates_path = ["_templates"]
html_theme = "pydata_sphinx_theme"
html_title = "mmtfl"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "logo": {"text": "mmtfl"},
}
html_sidebars = {"index": [], "start": [], "which_model": []}  # pages without pages below them
linkcheck_ignore = [r"https?://"]  # there may be no network: links within the site are checked


def _without_routing(app, what, name, member, skip, options):
    """Leave out methods of scikit-learn (metadata routing, output), which its documentation explains."""
    is_request = name.startswith("set_") and name.endswith("_request")
    return True if is_request or name in ("get_metadata_routing", "set_output") else skip


def setup(app):
    """Connect what is left out of the reference."""
    app.connect("autodoc-skip-member", _without_routing)
