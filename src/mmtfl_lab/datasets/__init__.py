"""Real multitask datasets, read from files of arrays on this machine."""

from mmtfl_lab.datasets.array_files import data_folder
from mmtfl_lab.datasets.loaders import (
    load_computer_survey,
    load_isolet,
    load_landmine,
    load_liver_toxicity,
    load_mfeat,
    load_multitarget,
    load_newsgroups,
    load_nutrimouse,
    load_parkinsons,
    load_sarcos,
    load_school,
    load_srbct,
    load_usps,
    load_wheat,
)

__all__ = [
    "data_folder",
    "load_computer_survey",
    "load_isolet",
    "load_landmine",
    "load_liver_toxicity",
    "load_mfeat",
    "load_multitarget",
    "load_newsgroups",
    "load_nutrimouse",
    "load_parkinsons",
    "load_sarcos",
    "load_school",
    "load_srbct",
    "load_usps",
    "load_wheat",
]
