"""One HTML page for a report: what was found, pictures, a page for the privacy officer, details once. No scripts, no network."""

from __future__ import annotations

import base64
import html
import io
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtra
from ..release.certificate import STATUS, Certificate
from ..release.explanation import Explanation
from .sentences import CERTAINTY, SURE, number

if TYPE_CHECKING:
    from .made import MadeReport

STYLE = """
:root{color-scheme:light dark;--ink:#1f2933;--pale:#52606d;--line:#cbd2d9;--back:#fff;--box:#f5f7fa;--sure:#0b6e4f;--open:#8d4b00}
@media (prefers-color-scheme:dark){:root{--ink:#e4e7eb;--pale:#b8c4ce;--line:#3e4c59;--back:#14191f;--box:#1f2933;--sure:#7bdcb5;
--open:#f7c37a}}
body{font:16px/1.55 system-ui,sans-serif;color:var(--ink);background:var(--back);max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-weight:600;line-height:1.2}h2{margin-top:3rem;border-top:1px solid var(--line);padding-top:1.2rem}h3{margin-bottom:.3rem}
figure{margin:1.5rem 0}figcaption{color:var(--pale);font-size:.9rem}
img{max-width:100%;height:auto;background:#fff;border-radius:6px}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(20rem,1fr));gap:1rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem}
td,th{padding:.25rem .7rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
ul.found{padding-left:1.2rem}.mark{font-size:.8rem;font-weight:600;white-space:nowrap}.sure{color:var(--sure)}.open{color:var(--open)}
.officer{background:var(--box);border-radius:8px;padding:.5rem 1.5rem 1rem}.officer h2{border:0;margin-top:.5rem}
.pale{color:var(--pale)}summary{cursor:pointer;margin:.6rem 0}
@media print{body{max-width:none;margin:0;font-size:11pt;color:#000;background:#fff}.officer{break-before:page;break-after:page}
figure,table tr{break-inside:avoid}details>summary{display:none}}
"""


def pyplot() -> Any:
    """What pictures are drawn with, or why they cannot be: asked before anything is paid for."""
    try:
        import matplotlib

        matplotlib.use("Agg", force=False)
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtra(
            "pictures need matplotlib: install it with `pip install 'pellucid[plots]'`, or leave the pictures out."
        ) from None
    return plt


def picture(explanation: Any, title: str = "") -> bytes:
    """The plot of an explanation, or of anything with plot(), as PNG bytes."""
    plt = pyplot()
    axes = explanation.plot()
    figure = axes.figure if hasattr(axes, "figure") else axes[0].figure  # several panels come as an array
    if title:
        figure.suptitle(title, fontsize=11, parse_math=False)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=120, metadata={"Software": None})
    plt.close(figure)
    return out.getvalue()


def page(made: MadeReport) -> str:
    """The whole report as HTML text."""
    title = html.escape(made.title)
    body = "\n".join([_found(made), _pictures(made), _officer(made.certificate), _details(made)])
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{_lead(made)}\n{body}\n</main>\n</body>\n</html>\n"
    )


def _lead(made: MadeReport) -> str:
    """What a reader has to know before anything else: the price, who is protected, and how far it is proved."""
    c = made.certificate
    said = f"{len(made)} explanations for {made.total} in all, {c.status}. What is protected: {c.unit}, of account {c.account!r}."
    return f"<p>{html.escape(said)} What the privacy officer has to know stands after the pictures.</p>"


def _found(made: MadeReport) -> str:
    lines = [
        f'<li>{html.escape(_capital(one.text))}. <span class="mark {"sure" if one.certainty == SURE else "open"}">'
        f"{html.escape(one.certainty)}</span></li>"
        for one in made.sentences
    ]
    marks = "; ".join(f"{mark}: {means}" for mark, means in CERTAINTY.items())
    out = "".join(f"<li>{html.escape(_capital(str(one)))}.</li>" for one in made.left_out)
    left = f"<h3>What is not in this report</h3>\n<ul>{out}</ul>" if out else ""
    return (
        f'<section>\n<h2>What was found</h2>\n<ul class="found">{"".join(lines)}</ul>\n'
        f'<p class="pale">{html.escape(_capital(marks))}. Each holds by itself, not all of them at once.</p>\n{left}\n</section>'
    )


def _pictures(made: MadeReport) -> str:
    """A picture for each explanation; a curve beside the distribution of its feature."""
    names, parts = dict(made.items()), []
    for name in names:
        beside = name.replace("curve along ", "distribution of ", 1)
        if name.startswith("distribution of ") and name.replace("distribution of ", "curve along ", 1) in names:
            continue  # it is drawn beside its curve
        together = [name, beside] if beside != name and beside in names else [name]
        figures = "".join(_figure(each, names[each]) for each in together)
        parts.append(f'<div class="pair">{figures}</div>' if len(together) > 1 else figures)
    return "<section>\n<h2>Pictures</h2>\n" + "\n".join(parts) + "\n</section>"


def _figure(name: str, one: Explanation) -> str:
    image = base64.b64encode(picture(one)).decode()
    alt = html.escape(f"{_capital(name)}, drawn with its errors; the numbers are in the details.")
    notes = " ".join(html.escape(_capital(note)) for note in one.notes)
    return (
        f'<figure><h3>{html.escape(_capital(name))}</h3><img alt="{alt}" src="data:image/png;base64,{image}">'
        f"<figcaption>{notes}</figcaption></figure>"
    )


def _officer(certificate: Certificate) -> str:
    """What a privacy officer has to know, in plain words."""
    c = certificate
    delta = f", except with a probability of {c.delta:g}" if c.delta else ""
    relation = (
        "whatever is in one person's record: the number of people is public"
        if c.relation == "replace"
        else "whether a person is in the table at all"
    )
    open_parts = [f"{what}: {how}" for what, how in c.protects.items() if not how.startswith("protected,")]
    rests = "".join(f"<li>{html.escape(_capital(text))}.</li>" for text in c.assumptions) or "<li>Nothing else.</li>"
    spent = f"{number(c.total['epsilon'])} of {number(c.total['budget_epsilon'])}"
    return f"""<section class="officer">
<h2>For the privacy officer</h2>
<h3>Who is protected</h3>
<p>Everybody in the table of account {html.escape(repr(c.account))}. What counts as one: {html.escape(c.unit)}.
It protects {relation}.</p>
<h3>From what</h3>
<p>Whatever anybody concludes from this report, they would conclude almost as likely if one person's data were other:
no conclusion becomes more than {2.718281828**c.epsilon:.3g} times as likely or unlikely through it (ε = {c.epsilon:.4g}{delta}).
That holds against everybody, whatever they know and compute. All releases from this account so far: ε = {spent}.</p>
<h3>What is not protected</h3>
<ul>{"".join(f"<li>{html.escape(_capital(text))}.</li>" for text in open_parts)}
<li>What is true of people in general, and so also of somebody who is not in the table.</li></ul>
<h3>What it rests on</h3>
<p>The status is <strong>{html.escape(c.status)}</strong>. {html.escape(_meaning(c.status))}</p>
<ul>{rests}</ul>
</section>"""


def _meaning(status: str) -> str:
    said = {
        "proved": "All code that touched a record was read, and the guarantee follows from written proofs.",
        "conditional": "The guarantee follows from written proofs if the conditions hold that come first below. "
        "Nobody but you can check these.",
    }
    return said.get(status) or (f"{_capital(STATUS[status])}." if STATUS.get(status) else "See the assumptions below.")


def _details(made: MadeReport) -> str:
    """The certificate, prices and numbers, each once."""
    rows = "".join(
        f'<tr><th scope="row">{html.escape(title)}</th><td>{"<br>".join(html.escape(item) for item in items)}</td></tr>'
        for title, items in made.certificate._lines()
    )
    prices = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th><td>{html.escape(str(paid))}</td><td>{_expected(step)}</td>'
        f"<td>{html.escape(one.certificate.status if one.certificate else '')}</td></tr>"
        for (name, one), paid, step in zip(made.items(), made.charged, made.steps)
    )
    tables = "".join(
        f"<details><summary>Numbers: {html.escape(name)}</summary>"
        f'<div class="scroll" role="region" aria-label="{html.escape(name)}" tabindex="0">{_numbers(one)}</div></details>'
        for name, one in made.items()
    )
    return (
        "<section>\n<h2>Technical details</h2>\n<h3>What each explanation cost</h3>\n"
        '<div class="scroll" role="region" aria-label="prices" tabindex="0"><table><thead><tr><th scope="col">explanation</th>'
        '<th scope="col">price</th><th scope="col">error that was expected</th><th scope="col">status</th></tr></thead>'
        f"<tbody>{prices}</tbody></table></div>\n<h3>Certificate of the whole report</h3>\n"
        f'<div class="scroll" role="region" aria-label="certificate" tabindex="0"><table><tbody>{rows}</tbody></table></div>\n'
        f"<h3>All numbers</h3>\n{tables}\n</section>"
    )


def _expected(step: Any) -> str:
    return "" if step is None else html.escape(f"{step.error:.2g} ({step.relative:.0%} of how far it usually goes)")


def _numbers(one: Explanation) -> str:
    frame = one.to_frame()
    head = "".join(f'<th scope="col">{html.escape(str(column))}</th>' for column in frame.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_cell(value))}</td>" for value in row) + "</tr>"
        for row in frame.itertuples(index=False)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cell(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _capital(text: str) -> str:
    return (text[:1].upper() + text[1:]).rstrip(".")
