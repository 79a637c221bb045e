"""The customer-support agent of the Vertex AI documentation: cancels orders, escalates tickets.

It answers from a script: patterns find out what the customer wants, no model is asked. `answer` is a coroutine
function, so orders that have nothing to do with each other are cancelled at the same time. Each prompt is a
conversation of its own: the agent takes one parameter, so it has no session to remember anything in.
"""

import asyncio
import re

from .tools import BackOffice, BackOfficeError

NO_RULE = "I answer from a script and have no rule for this."
SIGNED_IN = "customer_17"  # who is asking, unless the prompt says so


async def answer(prompt):
    """Do what the customer asks; tell what was done and which tools were called."""
    clerk = Clerk(BackOffice(), customer_id=first(r"customer_\d+", prompt) or SIGNED_IN)
    return {"response": await clerk.respond(prompt), "predicted_trajectory": clerk.calls}


def first(pattern, text):
    """The first occurrence of a pattern in a text, in lower case, or None."""
    match = re.search(pattern, text, re.IGNORECASE)
    return match and match.group().lower()


def listed(ids):
    """Ids as people list them."""
    *others, last = ids
    return f"{', '.join(others)} and {last}" if others else last


class Clerk:
    """Answers one prompt of one customer, and writes down each tool call before making it."""

    def __init__(self, office, customer_id):
        self.office = office
        self.customer_id = customer_id
        self.calls = []

    async def respond(self, prompt):
        """Do everything that the prompt asks for, one sentence for each."""
        order_id = first(r"order_\d+", prompt)
        sentences = []
        if first(r"\bmy name\b|\bwho am i\b", prompt):
            sentences.append(await self.greet())
        if order_id and first(r"\bcancel", prompt):
            sentences.append(await self.cancel(order_id))
        elif first(r"\bcancel .*pending", prompt):
            sentences.append(await self.cancel_pending_orders())
        elif first(r"\bstatus\b|\bwhere\b", prompt) and first(r"\borders?\b", prompt):
            sentences.append(await self.list_orders())
        if first(r"\bescalate .*tickets?", prompt):
            sentences.append(await self.escalate_open_tickets())
        return " ".join(sentences) or NO_RULE

    async def greet(self):
        """Address the customer by name.

        Nobody checks that there is such a customer: `designed_error_unknown_customer` shows the KeyError that escapes.
        """
        customer = await self.use(self.office.get_customer, customer_id=self.customer_id)
        return f"You are {customer['name']}."

    async def list_orders(self):
        """Say how the customer's orders stand."""
        orders = await self.use(self.office.get_orders, customer_id=self.customer_id)
        return " ".join(f"{order_id} is {status.lower()}." for order_id, status in orders.items())

    async def cancel(self, order_id):
        """Cancel one order; a refusal is passed on to the customer."""
        try:
            await self.use(self.office.cancel_order, order_id=order_id)
        except BackOfficeError as problem:
            return f"I could not do that: {problem}"
        return f"I have cancelled {order_id}."

    async def cancel_pending_orders(self):
        """Cancel what has not been shipped."""
        orders = await self.use(self.office.get_orders, customer_id=self.customer_id)
        pending = [order_id for order_id, status in orders.items() if status == "PENDING"]
        if not pending:
            return "You have no pending orders."
        await asyncio.gather(*(self.use(self.office.cancel_order, order_id=order_id) for order_id in pending))
        return f"I have cancelled {listed(pending)}."

    async def escalate_open_tickets(self):
        """Hand on every ticket that is still open."""
        tickets = await self.use(self.office.get_tickets, customer_id=self.customer_id)
        waiting = [ticket_id for ticket_id, status in tickets.items() if status == "OPEN"]
        if not waiting:
            return "You have no open tickets."
        await asyncio.gather(*(self.use(self.office.escalate_ticket, ticket_id=ticket_id) for ticket_id in waiting))
        return f"I have escalated {listed(waiting)}."

    async def use(self, tool, **arguments):
        """Call a tool, having written down that it is called."""
        self.calls.append({"tool_name": tool.__name__, "tool_input": arguments})
        return await tool(**arguments)
