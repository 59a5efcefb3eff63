"""An app whose functions nodes import in tests."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
from pydantic import BaseModel

import rota
from rota.client import skip

app = rota.App("billing")


class Currency(Enum):
    """A currency."""

    EURO = "EUR"


@dataclass
class Invoice:
    """What is to be paid, and when."""

    number: UUID
    total: Decimal
    due: date
    currency: Currency


class Receipt(msgspec.Struct):
    """What was paid, and when."""

    invoice: Invoice
    paid_at: datetime


class Address(BaseModel):
    """Where a customer lives."""

    city: str
    since: date


@app.task()
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@app.task()
def add_twice(number: int) -> int:
    """Call another task here."""
    return add(add(number))


@app.task()
async def pay(invoice: Invoice, paid_at: datetime) -> Receipt:
    """Pay an invoice a day after *paid_at*."""
    return Receipt(invoice, paid_at + timedelta(days=1))


@app.task()
def move(address: Address) -> Address:
    """Move to the capital."""
    return address.model_copy(update={"city": "Berlin"})


@app.task()
def kinds(*values: Decimal, **named: date) -> list[str]:
    """Return the names of the types of the arguments."""
    return [type(each).__name__ for each in (*values, *named.values())]


@app.task(retries=1, backoff="fixed 0s")
def attempt_of(folder: Path | None = None, ctx: Any = None) -> int:
    """Fail at the first attempt, and return the number of the second one."""
    del folder
    if ctx.attempt == 1:
        raise OSError("not yet")
    number: int = ctx.attempt
    return number


@app.task()
def refuse(reason: str) -> None:
    """Raise an exception."""
    raise ValueError(reason)


@app.task()
def halve(number: int) -> int:
    """Return half of an even number."""
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number // 2


@app.task()
def wait(seconds: float) -> None:
    """Wait."""
    import threading

    threading.Event().wait(seconds)


@app.task(schedule="*/15 * * * *", timezone="Europe/Berlin", timeout="10m")
def report(days: int = 7) -> int:
    """Report some days."""
    return days


@app.task()
def invoices(day: date, count: int = 2) -> list[Invoice]:
    """Return some invoices of a day."""
    return [Invoice(UUID(int=each), Decimal(each), day, Currency.EURO) for each in range(count)]


@app.task()
async def tax(invoice: Invoice) -> Decimal:
    """Return the tax of an invoice."""
    return invoice.total * Decimal("0.19")


@app.task()
def summary(invoices: list[Invoice], taxes: list[Decimal], note: str = "") -> str:
    """Describe invoices and their taxes."""
    return f"{len(invoices)} of {invoices[0].due}, tax {sum(taxes)}{note}"


@app.task()
def clean() -> None:
    """Do nothing."""


@app.task()
def pass_on(*values: Any) -> list[Any]:
    """Return the arguments."""
    return [*values]


@app.task()
def skip_odd(number: int) -> int:
    """Return an even number, or skip the task."""
    if number % 2:
        skip(f"{number} is odd")
    return number


CALLS: list[None] = []
"""One entry for each call of `count_calls` in this process."""


@app.task()
def count_calls() -> int:
    """Return the number of this call."""
    CALLS.append(None)
    return len(CALLS)


with app.flow(
    "nightly", schedule="0 2 * * *", timezone="Europe/Berlin", parameters={"day": date(2027, 1, 1)}
) as nightly:
    found = nightly.add(invoices, nightly.params.day)
    taxes = nightly.map(tax, found.result)
    summed = nightly.add(summary, found.result, taxes.result, note=" {{ of all }}")
    nightly.chain(summed, nightly.add(clean))


with rota.App("checks").flow("checked", parameters={"least": 1}) as checked:
    numbers = checked.add(pass_on, 2, 4)
    rounds = checked.add(skip_odd.repeat(until="last == 2 and index == 2", limit=5), 2)
    answered = checked.approval(
        "check", message="More than {{ params.least }}?", when="results.skip_odd > params.least"
    )
    paid = checked.wait_for_event("paid")
    loaded = checked.run_job("load", parameters={"sums": [paid, {"text": "{{ 1 }}"}]})
    sums = checked.map(add.partial(b=paid), numbers.result)
    failed = checked.add(refuse.options(allow_failure=True), "allowed")
    omitted = checked.add(clean.options(when='states.refuse != "failed"'))
    checked.chain(checked.sleep("10ms"), answered)
