"""Types of scikit-learn and of other libraries by name.

A fitted model can have such a type only when its library has been imported, so comparing with them never imports one.
"""

from __future__ import annotations

import sys


class Types:
    """Types of one module, compared by identity: `type(model) in TREES`. Subclasses are other types.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> DecisionTreeClassifier in Types("sklearn.tree", "DecisionTreeClassifier", "DecisionTreeRegressor")
    True
    """

    def __init__(self, module: str, *names: str):
        self.places = tuple((module, name) for name in names)

    def __contains__(self, kind: object) -> bool:
        return any(kind is getattr(sys.modules.get(module), name, self) for module, name in self.places)

    def __add__(self, more: Types) -> Types:
        both = Types("")
        both.places = self.places + more.places
        return both


TREES = Types("sklearn.tree", "DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier", "ExtraTreeRegressor")
FORESTS = Types(
    "sklearn.ensemble", "RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor"
)
BAGS = Types("sklearn.ensemble", "BaggingClassifier", "BaggingRegressor")
BOOSTED = Types("sklearn.ensemble", "GradientBoostingClassifier", "GradientBoostingRegressor")
BINNED = Types("sklearn.ensemble", "HistGradientBoostingClassifier", "HistGradientBoostingRegressor")
ISOLATION = Types("sklearn.ensemble", "IsolationForest")
XGBOOST = Types("xgboost", "XGBClassifier", "XGBRegressor", "XGBRFClassifier", "XGBRFRegressor")
LIGHTGBM = Types("lightgbm", "LGBMClassifier", "LGBMRegressor", "Booster")
CATBOOST = Types("catboost", "CatBoostClassifier", "CatBoostRegressor")
LINEAR = Types(
    "sklearn.linear_model",
    *("LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV", "ElasticNet", "ElasticNetCV", "Lars", "LassoLars"),
    *("LassoLarsCV", "LassoLarsIC", "OrthogonalMatchingPursuit", "BayesianRidge", "ARDRegression", "HuberRegressor"),
    *("QuantileRegressor", "TheilSenRegressor", "SGDRegressor"),
) + Types("sklearn.svm", "LinearSVR")
GENERALIZED = Types("sklearn.linear_model", "PoissonRegressor", "GammaRegressor", "TweedieRegressor")
ONE_BY_ONE = Types("sklearn.linear_model", "SGDClassifier")
LOGISTIC = Types("sklearn.linear_model", "LogisticRegression", "LogisticRegressionCV") + ONE_BY_ONE
NETWORKS = Types("sklearn.neural_network", "MLPClassifier", "MLPRegressor")
CONSTANT = Types("sklearn.dummy", "DummyClassifier", "DummyRegressor")
IDENTITY_LINKS = Types("sklearn._loss.link", "IdentityLink")

SCALERS = Types("sklearn.preprocessing", "StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")
FUNCTIONS = Types("sklearn.preprocessing", "FunctionTransformer")
ONE_HOT = Types("sklearn.preprocessing", "OneHotEncoder")
ORDINAL = Types("sklearn.preprocessing", "OrdinalEncoder")
IMPUTERS = Types("sklearn.impute", "SimpleImputer")
PIPELINES = Types("sklearn.pipeline", "Pipeline")
SIDE_BY_SIDE = Types("sklearn.compose", "ColumnTransformer")
RETARGETED = Types("sklearn.compose", "TransformedTargetRegressor")
SEARCHES = Types("sklearn.model_selection", "GridSearchCV", "RandomizedSearchCV")
