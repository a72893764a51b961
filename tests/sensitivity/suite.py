"""Thirty functions with known suprema: what any solver of ours has to bound from above, and tightly.

Each has the point where the supremum is attained and one line on why nothing in the box is larger. Thirteen have five to
eight variables. Suprema are decimals of at least 25 digits or closed forms; `test_suite.py` checks every one of them at its
point in 40 digits.
"""

from __future__ import annotations

from dataclasses import dataclass

import mpmath
import sympy


@dataclass(frozen=True)
class Known:
    name: str
    formula: str
    box: dict[str, tuple[float, float]]
    supremum: str
    at: dict[str, str]
    why: str

    @property
    def truth(self) -> mpmath.mpf:
        with mpmath.workdps(40):
            return mpmath.mpf(sympy.N(sympy.sympify(self.supremum, rational=True), 40))


def _cube(count: int, lo: float, hi: float) -> dict[str, tuple[float, float]]:
    return {f"x{i}": (lo, hi) for i in range(1, count + 1)}


def _at(*values: str) -> dict[str, str]:
    return {f"x{i}": value for i, value in enumerate(values, start=1)}


def _each(term: str, count: int, joined: str = " + ") -> str:
    return joined.join(term.replace("#", str(i)) for i in range(1, count + 1))


_HARTMANN = (
    (1.0, (10, 3, 17, 3.5, 1.7, 8), (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886)),
    (1.2, (0.05, 10, 17, 0.1, 8, 14), (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991)),
    (3.0, (3, 3.5, 1.7, 10, 17, 8), (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650)),
    (3.2, (17, 8, 0.05, 10, 0.1, 14), (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381)),
)


def _hartmann() -> str:
    bumps = (
        f"{height}*exp(-({' + '.join(f'{w}*(x{j} - {c})**2' for j, (w, c) in enumerate(zip(ws, cs), start=1))}))"
        for height, ws, cs in _HARTMANN
    )
    return " + ".join(bumps)


SUITE = (
    Known("parabola", "x*(1 - x)", {"x": (0, 1)}, "1/4", {"x": "1/2"}, "concave, stationary at 1/2"),
    Known("cubic", "x**3 - 3*x", {"x": (-2, 2)}, "2", {"x": "-1"}, "2 - f = (x + 1)^2 (2 - x)"),
    Known(
        "camel",
        "-(4*x**2 - 2.1*x**4 + x**6/3 + x*y - 4*y**2 + 4*y**4)",
        {"x": (-2, 2), "y": (-1, 1)},
        "1.03162845348987735041636543715",
        {"x": "0.0898420131003180624224905606221", "y": "-0.712656403020739633397265814228"},
        "the published global minimum of the six-hump camel, at a stationary point",
    ),
    Known(
        "gradient norm of a^2 + exp(2b - a)",
        "sqrt((2*a - exp(2*b - a))**2 + 4*exp(2*(2*b - a)))",
        {"a": (1, 2), "b": (0.5, 3)},
        "sqrt((2 - exp(5))**2 + 4*exp(10))",
        {"a": "1", "b": "3"},
        "with E = exp(2b - a) it is 5E^2 - 4aE + 4a^2 squared, increasing in E above 2a/5 and decreasing in a",
    ),
    Known("x exp(-x)", "x*exp(-x)", {"x": (0, 5)}, "exp(-1)", {"x": "1"}, "exp(x - 1) >= x"),
    Known(
        "logarithm less its series",
        "log(1 + x) - x + x**2/2",
        {"x": (0, 1)},
        "log(2) - 1/2",
        {"x": "1"},
        "the derivative is x^2/(1 + x)",
    ),
    Known(
        "difference of tanh",
        "tanh(3*x) - tanh(x)",
        {"x": (-2, 2)},
        "2*sqrt((2*sqrt(3) - 3)/3)*(1 - (2*sqrt(3) - 3)/3)/(1 + (2*sqrt(3) - 3))",
        {"x": "atanh(sqrt((2*sqrt(3) - 3)/3))"},
        "2t(1 - t^2)/(1 + 3t^2) with t = tanh x has one positive stationary point",
    ),
    Known(
        "rational hill",
        "(x + y)/(1 + x**2 + y**2)",
        {"x": (-3, 3), "y": (-3, 3)},
        "sqrt(2)/2",
        {"x": "sqrt(2)/2", "y": "sqrt(2)/2"},
        "x + y <= sqrt(2) r and r/(1 + r^2) <= 1/2",
    ),
    Known(
        "cancelling square",
        "(x + 1)**2 - x**2 - 2*x + sin(x)",
        {"x": (0, 10)},
        "2",
        {"x": "pi/2"},
        "it is 1 + sin x",
    ),
    Known(
        "(x - 1)^7 multiplied out",
        "x**7 - 7*x**6 + 21*x**5 - 35*x**4 + 35*x**3 - 21*x**2 + 7*x - 1",
        {"x": (0, 2)},
        "1",
        {"x": "2"},
        "(x - 1)^7 is increasing",
    ),
    Known(
        "two sines",
        "-(sin(x) + sin(10*x/3))",
        {"x": (2.7, 7.5)},
        "1.89959934915211335200013656522",
        {"x": "5.14573529025612795763312458535"},
        "the published global minimum, at a stationary point",
    ),
    Known(
        "absolute value",
        "abs(x**3 - x*y)",
        {"x": (-1, 1), "y": (-1, 1)},
        "2",
        {"x": "1", "y": "-1"},
        "|x| |x^2 - y| <= 1 * 2",
    ),
    Known(
        "hypotenuse less the mean",
        "sqrt(x**2 + y**2) - (x + y)/2",
        {"x": (0, 1), "y": (0, 1)},
        "1/2",
        {"x": "1", "y": "0"},
        "convex, so attained at a corner",
    ),
    Known(
        "Goldstein and Price",
        "-(1 + (x + y + 1)**2*(19 - 14*x + 3*x**2 - 14*y + 6*x*y + 3*y**2))"
        "*(30 + (2*x - 3*y)**2*(18 - 32*x + 12*x**2 + 48*y - 36*x*y + 27*y**2))",
        {"x": (-2, 2), "y": (-2, 2)},
        "-3",
        {"x": "0", "y": "-1"},
        "the published global minimum 3",
    ),
    Known(
        "entropy",
        "-x*log(x) - (1 - x)*log(1 - x)",
        {"x": (0.001, 0.999)},
        "log(2)",
        {"x": "1/2"},
        "concave and symmetric",
    ),
    Known(
        "arc tangent",
        "atan(x*y)/(1 + x**2)",
        {"x": (-3, 3), "y": (-2, 2)},
        "0.644434412009596183699800089627",
        {"x": "0.616138394376288609213056679412", "y": "2"},
        "increasing in y for x > 0, then one stationary point on the edge; symmetric under (x, y) -> (-x, -y)",
    ),
    Known(
        "two bumps",
        "exp(-(x - 1)**2 - (y - 1)**2) + exp(-(x + 1)**2 - (y + 1)**2)/2",
        {"x": (-3, 3), "y": (-3, 3)},
        "1.00016795695246736351968804826",
        {"x": "0.999663690163467076954312530389", "y": "0.999663690163467076954312530389"},
        "the stationary point at the higher bump; the other bump is half as high",
    ),
    Known(
        "pairs from a square of a sum",
        f"({_each('x#', 6)})**2 - ({_each('x#**2', 6)})",
        _cube(6, -1, 1),
        "30",
        _at(*["1"] * 6),
        "linear in each variable, so attained at a corner; (sum of signs)^2 - 6 <= 30",
    ),
    Known(
        "product of six parabolas",
        _each("4*x#*(1 - x#)", 6, "*"),
        _cube(6, 0, 1),
        "1",
        _at(*["1/2"] * 6),
        "each factor lies in [0, 1]",
    ),
    Known(
        "share of an exponential",
        f"exp(x1)/({_each('exp(x#)', 6)})",
        _cube(6, -1, 1),
        "exp(1)/(exp(1) + 5*exp(-1))",
        _at("1", *["-1"] * 5),
        "increasing in x1, decreasing in the others",
    ),
    Known(
        "variance of eight",
        f"({_each('x#**2', 8)})/8 - (({_each('x#', 8)})/8)**2",
        _cube(8, 0, 1),
        "1/4",
        _at(*["0"] * 4, *["1"] * 4),
        "x^2 <= x, and p - p^2 <= 1/4",
    ),
    Known(
        "cosine with the diagonal",
        f"({_each('x#', 5)})/sqrt(1 + {_each('x#**2', 5)})",
        _cube(5, -2, 2),
        "10/sqrt(21)",
        _at(*["2"] * 5),
        "Cauchy and Schwarz, then increasing in the length, which is at most 2 sqrt(5)",
    ),
    Known(
        "product of tanh",
        "tanh(x1 - x2 + x3)*tanh(x4 + x5)",
        _cube(5, -1, 1),
        "tanh(3)*tanh(2)",
        _at("1", "-1", "1", "1", "1"),
        "tanh is odd and increasing",
    ),
    Known(
        "Rastrigin in five",
        _each("10*cos(2*pi*x#) - x#**2", 5),
        _cube(5, -2.56, 2.56),
        "50",
        _at(*["0"] * 5),
        "cos <= 1",
    ),
    Known(
        "Styblinski and Tang in six",
        f"-({_each('x#**4 - 16*x#**2 + 5*x#', 6)})/2",
        _cube(6, -5, 5),
        "6*39.1661657037714154638931697395",
        _at(*["-2.90353402777117709511891759551"] * 6),
        "the variables are separate; the least stationary value of a quartic",
    ),
    Known(
        "Griewank in five",
        f"1/(2 + ({_each('x#**2', 5)})/4000 - {_each('cos(x#/sqrt(#))', 5, '*')})",
        _cube(5, -10, 10),
        "1",
        _at(*["0"] * 5),
        "the product of cosines is at most 1",
    ),
    Known(
        "Hartmann in six",
        _hartmann(),
        _cube(6, 0, 1),
        "3.32236801141551480008431215267",
        _at(
            "0.201689511006705424332951813254",
            "0.150010691823457968792957185182",
            "0.476873974221896990324868303209",
            "0.275332430494056068243384825158",
            "0.311651616600113242450162473595",
            "0.657300534065620306061062249188",
        ),
        "the published global minimum, at a stationary point",
    ),
    Known(
        "gradient norm of a logistic loss",
        f"sqrt({_each('x#**2', 6)})/(1 + exp(x7*({_each('x#', 6)})))",
        _cube(7, -1, 1),
        "sqrt(6)/(1 + exp(-6))",
        _at(*["-1"] * 6, "1"),
        "the norm is at most sqrt(6) and the exponent at least -6",
    ),
    Known(
        "covariance of three pairs",
        "x1*x4 + x2*x5 + x3*x6 - (x1 + x2 + x3)*(x4 + x5 + x6)/3",
        _cube(6, 0, 1),
        "2/3",
        _at("1", "0", "0", "1", "0", "0"),
        "linear in each variable, so attained at a corner; all 64 corners are at most 2/3",
    ),
    Known(
        "determinant of three rows",
        "x1*(x5 - x6*x8) - x2*(x4 - x6*x7) + x3*(x4*x8 - x5*x7)",
        _cube(8, -1, 1),
        "4",
        _at("1", "1", "-1", "-1", "1", "1", "1", "-1"),
        "linear in each variable; the largest determinant of a 3 by 3 matrix of signs is 4",
    ),
)
