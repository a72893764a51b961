"""What an explainer is: a plan that sees no data, a run that sees a door, and what to expect of it.

`plan` settles the stages, their shares of the spend and their queries; `run` asks and turns the answers into an Explanation;
`expected` says, without data, how large the error will be. They pass on one frozen `Plan`; an explainer itself keeps nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from ..errors import PlanError
from ..public.black_box import BlackBox
from ..public.fitted.read import Read, read
from ..public.groups import NO_GROUPS, Groups
from ..public.model import Model
from ..public.schema import Schema
from ..query.functions import Derived
from ..query.reviewed import is_ours, written_here
from ..sensitivity import Flow
from .door import Ask
from .explanation import Explanation
from .plan import Expected, Plan, Public

if TYPE_CHECKING:
    from .stream import Channel, Stream

S = TypeVar("S", bound="Stream")
"""The streams that an interactive explainer makes."""

_stored: dict[str, type[Explainer]] = {}


class Explainer(ABC):
    """Base of all explainers. Instances are frozen values: what to explain, never the data."""

    references: ClassVar[tuple[str, ...]] = ()
    """The publications behind it."""
    stored_as: ClassVar[str] = ""
    """What requests in ledgers call it, for good: an identical request is known again by it wherever the file has moved.

    The first explainers are called by the paths at which their files were then."""

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        own = cls.__dict__.get("stored_as")
        if own is None:
            return
        known = _stored.get(own, cls)
        another = (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__)
        if another or (not written_here(cls) and own.startswith("pellucid.")):
            raise PlanError(
                f"{cls.__name__}.stored_as = {own!r}: another explainer has this name in ledgers; choose one of your own."
            )
        _stored[own] = cls

    @classmethod
    def stored_name(cls) -> str:
        """The registered name; for one that has none, where it was written. A subclass does not inherit it.

        Names of somebody's own are registered in one process only, so where they were written is part of them.
        """
        own, place = cls.__dict__.get("stored_as"), f"{cls.__module__}.{cls.__qualname__}"
        return own if own and is_ours(cls) else f"{own} in {place}" if own else place

    @property
    def models(self) -> tuple[BlackBox, ...]:
        """The black boxes involved; each is tried on public records before anything is charged."""
        return ()

    @property
    def relies_on(self) -> tuple[BlackBox | Derived, ...]:
        """All that was made from data and goes into the release: certificates say from whose, and what that means."""
        return self.models

    def only_asked(self, plan: Plan) -> tuple[BlackBox, ...]:
        """The black boxes whose answers about people are taken as they come. The guarantee rests on each being a function of one
        row, which was tried. Any other was read, and Pellucid computes its answers itself."""
        return tuple(model for model in self.models if not is_read(model, plan.public.schema))

    @abstractmethod
    def columns(self, schema: Schema) -> tuple[str, ...]:
        """The features asked about, whose bounds go on the certificate; raises when one is not declared."""

    def grouping(self, schema: Schema) -> Groups:
        """The groups of features that count as one in what is released."""
        return NO_GROUPS

    def leaves_out(self, schema: Schema) -> tuple[str, ...]:
        """The columns in which a record whose cell says nothing is not counted; everywhere else a value stands for it."""
        return ()

    def cell_policies(self, schema: Schema) -> dict[str, str]:
        """What becomes of cells that are not as declared, column by column, for the certificate."""
        left_out = self.leaves_out(schema)
        return {name: schema[name].policy(name in left_out) for name in self.columns(schema)}

    @abstractmethod
    def plan(self, public: Public) -> Plan:
        """The stages with their shares and queries. Whatever cannot be asked is refused here, before it is paid for."""

    @abstractmethod
    def run(self, ask: Ask) -> Explanation:
        """Ask, then post-process; the plan is `ask.plan`. No rows are in scope."""

    @abstractmethod
    def expected(self, plan: Plan) -> Expected:
        """The error to expect. Touches no data."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The request as plain data: for the ledger, the certificate and replays."""

    @classmethod
    @abstractmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        """Instances the contract suite tries on a schema with every kind of feature."""

    def flow(self, plan: Plan | None = None) -> Flow | None:
        """What reads what, from the records to the explanation; the stages that are charged must be an enabling set of it."""
        return None

    def has_shape_of(self, stored: Explanation) -> bool:
        """Whether a stored result has the shape that this request's has: ledgers of the version before do not tell one thing
        from a list of one."""
        return True

    def about_record(self) -> str:
        """What the certificate says about the record asked about."""
        return "none is involved"

    def conditions(self) -> tuple[str, ...]:
        """What this explainer's guarantee is conditional on beyond the session's own list."""
        return ()

    def assumptions(self) -> tuple[str, ...]:
        """What this explainer's guarantee rests on beyond the session's own list and the plan's."""
        return ()

    @property
    def asks_one_by_one(self) -> bool:
        """Whether it answers questions one after another, through `Session.open`, instead of one release."""
        return False


def is_read(model: BlackBox, schema: Schema) -> bool:
    """Whether a black box is none: its trees were read, and are walked here; or its predictor is one of ours, and says that
    nothing but its own file computes its answers."""
    if not as_written(model):
        return False
    return has_own_predictor(model) or (isinstance(model, Model) and isinstance(read(model.ready(schema)), Read))


def has_own_predictor(model: BlackBox) -> bool:
    """Whether the predictor is one of ours that computes its answers by itself."""
    kind: Any = type(model.predictor)
    return as_written(model) and is_ours(kind) and getattr(model.predictor, "computed_here", False) is True


def as_written(model: BlackBox) -> bool:
    """Whether a model or clustering is of a class of ours, with nothing put in the place of a method."""
    return is_ours(type(model)) and vars(model).keys() <= {field.name for field in fields(model)}


class Interactive(Explainer, Generic[S]):
    """Base of explainers that can answer questions one after another: `Session.open` makes a stream of them.

    Such an explainer plans what a question may cost and what a stream needs to know; `opened` makes the stream, which asks
    through a `Channel`: every step is charged before it is taken, and all that was said is kept in the ledger.
    """

    @property
    def asks_one_by_one(self) -> bool:
        return True

    @abstractmethod
    def opened(self, plan: Plan, channel: Channel) -> S:
        """The stream of questions. Nothing is read and nothing charged yet, unless one account per record is opened."""
