"""Multitask datasets: simulated ones with a known truth, and real ones read from files on this machine."""

from mmtfl.datasets.array_files import data_folder
from mmtfl.datasets.loaders import (
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
from mmtfl.datasets.simulate import make_d1, make_d2, make_hospitals, make_tasks

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
    "make_d1",
    "make_d2",
    "make_hospitals",
    "make_tasks",
]
