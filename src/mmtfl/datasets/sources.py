"""Where each real dataset comes from, what its file holds, and what to beware of."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SOURCES", "Source"]


@dataclass(frozen=True)
class Source:
    """One file of arrays: what it is, what is in it, and where the original comes from."""

    file: str
    title: str
    arrays: str
    origin: str
    terms: str
    notes: str

    def describe(self) -> str:
        """The text that goes with the loaded data."""
        return "\n".join([self.title, "", self.notes, "", f"Source: {self.origin}", f"Terms: {self.terms}"])


_UCI = "UCI Machine Learning Repository: Creative Commons Attribution 4.0."
_NO_LICENCE = "No explicit licence at the source; published for research."
_MULAN = (
    "Mulan multi-target collection (github.com/tsoumakas/mulan, data/multi-target): E. "
    "Spyromitros-Xioufis, G. Tsoumakas, W. Groves, I. Vlahavas, Multi-target regression via input space "
    "expansion: treating targets as inputs, Machine Learning 104, 2016"
)
_MULAN_TERMS = "No explicit licence on the data; public benchmark collection, to be cited as above."
_SHARED = "X (n, d), Y (n, T), feature_names, target_names"
_SARCOS = (
    "S. Vijayakumar, S. Schaal, Locally weighted projection regression, ICML 2000; sarcos_inv.mat and "
    "sarcos_inv_test.mat of C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning "
    "(gaussianprocess.org/gpml/data)"
)
_NEWSGROUPS = (
    "K. Lang, NewsWeeder, ICML 1995; tasks as in Q. Gu, J. Zhou, Learning the shared subspace for "
    "multi-task clustering and transductive transfer classification, ICDM 2009 "
    "(github.com/jiayuzhou/MALSAR, data/Newsgroup)"
)
_NEWSGROUPS_NOTES = (
    "Two binary tasks with different sub-groups of the same two topics; 2,000 word counts, 2.7 % of them not "
    "zero, kept sparse. The source's labels 1 and 2 are 0 and 1 here. Some columns are zero throughout, and "
    "more within one task. The words are not known, nor whether both pairs share one vocabulary."
)


def _multitarget(name: str, title: str, notes: str, origin: str = "") -> Source:
    return Source(
        f"mtr_{name}.npz", title, _SHARED, "; ".join(filter(None, [_MULAN, origin])), _MULAN_TERMS, notes
    )


_ALL = [
    Source(
        "sarcos_train_tasks.npz",
        "SARCOS inverse dynamics, rows of the training file",
        "X (n, 21), y (n,), task (n,) from 0, in_test (n,) bool, feature_names, task_names",
        _SARCOS,
        _NO_LICENCE,
        "Seven tasks, the torques of a robot arm, each with rows of its own; 21 features: 7 positions, "
        "velocities and accelerations. The official test file lies inside the official training file: rows "
        "marked in_test are also rows of it, and must be left out before scoring on it. The same x can "
        "occur in several tasks, and rows come from a few continuous trajectories, so random splits have "
        "near neighbours on both sides. Torques differ in scale by a factor of 20: scale the targets.",
    ),
    Source(
        "sarcos_test.npz",
        "SARCOS inverse dynamics, the official test file",
        _SHARED,
        _SARCOS,
        _NO_LICENCE,
        "4,449 rows, one column of y for each of the seven torques. Not held out from the official "
        "training file: train on rows that are not marked in_test. Torques differ in scale by a factor of "
        "20 and correlate up to 0.96.",
    ),
    Source(
        "usps.npz",
        "USPS handwritten digits, standard split",
        "X_train (7291, 256), y_train (7291,), X_test (2007, 256), y_test (2007,), digits 0 to 9",
        "J. J. Hull, A database for handwritten text recognition research, IEEE PAMI 16(5), 1994; "
        "zip.train and zip.test of T. Hastie, R. Tibshirani, J. Friedman, The Elements of Statistical "
        "Learning",
        _NO_LICENCE,
        "Ten one-vs-rest tasks on shared images of 16 x 16 pixels, row by row. Pixels are in [0, 1], where "
        "zip.train has [-1, 1]. The test part is harder than the training part (another collection). Tasks "
        "are unbalanced, about 1 to 9; some border pixels hardly vary, and standardising blows them up.",
    ),
    Source(
        "school.npz",
        "Examination scores of 139 London secondary schools",
        "X (15362, 28), y (15362,), task (15362,) from 0, feature_names",
        "Inner London Education Authority, 1985-87; D. Nuttall, H. Goldstein, R. Prosser, J. Rasbash, "
        "Differential school effectiveness, Int. J. Educ. Res. 13, 1989; coding of A. Argyriou, T. "
        "Evgeniou, M. Pontil, Convex multi-task feature learning, Machine Learning 73, 2008 (school.mat, "
        "github.com/jiayuzhou/MALSAR)",
        "No explicit licence; long-standing public benchmark.",
        "139 tasks, the schools, of 22 to 251 pupils; y is an examination score from 1 to 70. The source's "
        "last column is a constant one, left out unless asked for. Most columns are full one-hot groups, "
        "hence collinear with an intercept. 7 to 22 columns are constant within a task, the school-level "
        "ones in every task: do not standardise task by task. Feature names are guesses from the published "
        "description.",
    ),
    Source(
        "landmine.npz",
        "Landmine detection on 29 sites",
        "X (14820, 9), y (14820,) 0 or 1, task (14820,) from 0",
        "Y. Xue, X. Liao, L. Carin, B. Krishnapuram, Multi-task learning for classification with Dirichlet "
        "process priors, JMLR 8, 2007 (LandmineData.mat, Duke University)",
        _NO_LICENCE,
        "29 binary tasks of 445 to 690 rows; 9 features from radar images. Only 6 % of the rows are mines: "
        "score by roc_auc rather than accuracy, and stratify splits, or small training parts hold no mine. "
        "Features have heavy tails, with values up to 39.",
    ),
    Source(
        "parkinsons_telemonitoring.npz",
        "Parkinson's telemonitoring of 42 patients",
        "X (5875, 19), Y (5875, 2), task (5875,) from 0, feature_names, target_names",
        "A. Tsanas, M. A. Little, P. E. McSharry, L. O. Ramig, Accurate telemonitoring of Parkinson's "
        "disease progression by non-invasive speech tests, IEEE Trans. Biomed. Eng. 57, 2010 (UCI)",
        _UCI,
        "42 tasks, the patients, of 101 to 168 recordings; age, sex, test_time and 16 voice measures. age "
        "and sex are constant within every task. Jitter:RAP and Jitter:DDP are one measure up to a factor "
        "of 3, as are Shimmer:APQ3 and Shimmer:DDA. Standard deviations run from 4e-5 to 53: standardise. "
        "Scores were interpolated in time, so random splits leak through test_time; under a tenth of their "
        "variance is within patients.",
    ),
    Source(
        "computer_survey.npz",
        "Computer survey: 190 people rate 20 computers",
        "X (3800, 13), y (3800,), task (3800,) from 0, profile (3800,), Z (190, 7), feature_names, Z_names",
        "P. J. Lenk, W. S. DeSarbo, P. E. Green, M. R. Young, Hierarchical Bayes conjoint analysis, "
        "Marketing Science 15, 1996 (github.com/probml/pmtkdata, conjointAnalysisComputerBuyers)",
        "No explicit licence; made public by the author for research and teaching.",
        "190 tasks, the respondents, who rate the same 20 profiles from 0 to 10; 13 features coded -1 and "
        "+1, equal in all tasks. The source takes profiles 0-15 for calibration and 16-19 for validation. "
        "One respondent gives one rating throughout. The multitask papers use 180 of the 190.",
    ),
    Source(
        "isolet.npz",
        "Isolet: spoken letters of five groups of speakers",
        "X (7797, 617), y (7797,) 1 to 26, task (7797,) from 0",
        "M. Fanty, R. Cole, Spoken letter recognition, NIPS 1990; UCI Machine Learning Repository, 1994",
        _UCI,
        "5 tasks, groups of 30 speakers; 617 acoustic features in [-1, 1]; y is the letter's number from 1 "
        "to 26, which several multitask papers regress. Rows are sorted by letter or speaker: shuffle "
        "before splitting.",
    ),
    _multitarget(
        "atp1d",
        "Airline ticket prices, 1 day ahead",
        "6 targets, 337 rows, 411 features, of which 41 are constant and 143 repeat an earlier one: which "
        "of two equal features is chosen is arbitrary. Rows are ordered in time.",
    ),
    _multitarget(
        "atp7d",
        "Airline ticket prices, 7 days ahead",
        "6 targets, 296 rows, 411 features, of which 41 are constant and 143 repeat an earlier one: which "
        "of two equal features is chosen is arbitrary. Rows are ordered in time.",
    ),
    _multitarget(
        "oes10",
        "Occupational employment survey 2010",
        "16 targets, employment in 16 occupations; 298 features, other occupations; 403 cities. "
        "Heavy-tailed counts: a few large cities dominate squared error, consider log1p. The source filled "
        "missing values in with means.",
        "US Bureau of Labor Statistics",
    ),
    _multitarget(
        "oes97",
        "Occupational employment survey 1997",
        "16 targets, employment in 16 occupations; 263 features, other occupations; 334 cities. "
        "Heavy-tailed counts: a few large cities dominate squared error, consider log1p. The source filled "
        "missing values in with means.",
        "US Bureau of Labor Statistics",
    ),
    _multitarget(
        "rf1",
        "River flow at 8 sites, 48 hours ahead",
        "8 targets, 64 features: the flow at 8 sites at 8 lags, almost collinear. 120 of the 9,125 hours "
        "have missing features and are left out unless asked for. Target 1 has one spike of 84 standard "
        "deviations (source row 4782) that wrecks its squared error. A time series: split by time.",
        "US National Weather Service",
    ),
    _multitarget(
        "scm20d",
        "Supply chain management, 20 days ahead",
        "16 targets, mean prices; 61 features; 8,966 rows of simulated trading, ordered in time.",
        "TAC SCM 2010",
    ),
    _multitarget(
        "wq",
        "River water quality",
        "14 targets, abundance of species, with values 0, 1, 3 and 5 and 64 % zeros; 16 features, 1,060 "
        "rows. Hard and noisy: ridge regression explains 1 to 17 %.",
        "S. Dzeroski, D. Demsar, J. Grbovic, Applied Intelligence 13, 2000",
    ),
    Source(
        "mfeat_pix.npz",
        "Multiple features: handwritten digits, pixel averages",
        "X (2000, 240), y (2000,) digits 0 to 9",
        "R. Duin, UCI Machine Learning Repository, Multiple Features (mfeat-pix); multitask use: A. Jalali "
        "et al., A dirty model for multi-task learning, NIPS 2010",
        _UCI,
        "Ten one-vs-rest tasks on 2,000 shared images, 200 of each digit; 240 features, averages of 15 x "
        "16 windows from 0 to 6. Rows are sorted by digit: shuffle before splitting. 6 rows are repeated.",
    ),
    Source(
        "liver_toxicity.npz",
        "Liver toxicity of acetaminophen in 64 rats",
        f"{_SHARED}, dose (n,), time (n,)",
        "P. R. Bushel, R. D. Wolfinger, G. Gibson, BMC Systems Biology 1:15, 2007 (R package mixOmics, "
        "liver.toxicity)",
        "Package GPL (>= 2); article data open access.",
        "10 targets of clinical chemistry, expression of 3,116 genes. Targets are on very different "
        "scales; ALT and AST are heavy-tailed, log them. Rats come in groups of dose and time: random "
        "folds mix the groups.",
    ),
    Source(
        "nutrimouse.npz",
        "Nutrimouse: fatty acids and genes of 40 mice",
        f"{_SHARED}, diet (n,), genotype (n,)",
        "P. G. P. Martin et al., Hepatology 45, 2007 (R package mixOmics, nutrimouse)",
        "Package GPL (>= 2).",
        "21 targets, percentages of hepatic fatty acids that add up to about 100; 120 genes. The genotype "
        "has a strong effect.",
    ),
    Source(
        "wheat.npz",
        "Yield of 599 wheat lines in four environments",
        "X (599, 1279), Y (599, 4), cv_set (599,), feature_names",
        "J. Crossa et al., Prediction of genetic values of quantitative traits in plant breeding using "
        "pedigree and molecular markers, Genetics 186, 2010 (R package BGLR, wheat)",
        "Package GPL-3.",
        "4 targets, standardised yield in environments 1, 2, 4 and 5; 1,279 markers, 0 or 1, in groups of "
        "nearly equal columns. The first environment is not correlated with the others: an outlying task. "
        "cv_set is the published assignment to ten folds.",
    ),
    Source(
        "srbct.npz",
        "Small round blue cell tumours of 63 patients",
        "X (63, 2308), y (63,) from 0, class_names (4,), feature_names",
        "J. Khan et al., Classification and diagnostic prediction of cancers using gene expression "
        "profiling and artificial neural networks, Nature Medicine 7, 2001 (R package mixOmics, srbct)",
        "Package GPL (>= 2).",
        "Four one-vs-rest tasks, expression of 2,308 genes: positive, skewed ratios, usually logged. "
        "Nearly perfectly separable: without a penalty logistic regression diverges. Feature names are "
        "clone ids; 31 repeats are told apart by '#2' and so on.",
    ),
    Source(
        "newsgroup_comp_vs_sci.npz",
        "20 Newsgroups, comp against sci",
        "X (3702, 2000) word counts, y (3702,) 1 or 2, task (3702,) from 0",
        _NEWSGROUPS,
        "No explicit licence; widely redistributed.",
        _NEWSGROUPS_NOTES,
    ),
    Source(
        "newsgroup_rec_vs_talk.npz",
        "20 Newsgroups, rec against talk",
        "X (3389, 2000) word counts, y (3389,) 1 or 2, task (3389,) from 0",
        _NEWSGROUPS,
        "No explicit licence; widely redistributed.",
        _NEWSGROUPS_NOTES,
    ),
]

SOURCES = {source.file: source for source in _ALL}
