"""A shop's back office: orders and support tickets of a few customers, in memory. The tools are coroutines."""

import asyncio
import copy

ORDERS = {
    "order_1": {"customer_id": "customer_17", "status": "DELIVERED"},
    "order_4": {"customer_id": "customer_17", "status": "PENDING"},
    "order_6": {"customer_id": "customer_17", "status": "PENDING"},
    "order_8": {"customer_id": "customer_23", "status": "SHIPPED"},
}
TICKETS = {
    "ticket_2": {"customer_id": "customer_17", "status": "OPEN", "subject": "Wrong colour"},
    "ticket_3": {"customer_id": "customer_17", "status": "CLOSED", "subject": "Invoice"},
    "ticket_5": {"customer_id": "customer_17", "status": "OPEN", "subject": "Refund"},
}
CUSTOMERS = {"customer_17": {"name": "Ana"}, "customer_23": {"name": "Li Wei"}}


class BackOfficeError(Exception):
    """A tool could not do what was asked; the message is for the customer."""


class BackOffice:
    """The orders and tickets as they stand. Its methods are the agent's tools."""

    def __init__(self):
        self.orders = copy.deepcopy(ORDERS)
        self.tickets = copy.deepcopy(TICKETS)

    async def get_customer(self, customer_id):
        """Who a customer is."""
        return await reply(CUSTOMERS[customer_id])

    async def get_orders(self, customer_id):
        """The orders of a customer: status by id."""
        return await reply(statuses(self.orders, customer_id))

    async def cancel_order(self, order_id):
        """Cancel an order that is still pending."""
        order = self.orders.get(order_id)
        if order is None:
            raise BackOfficeError(f"There is no {order_id}.")
        if order["status"] != "PENDING":
            raise BackOfficeError(f"{order_id} is {order['status'].lower()} and cannot be cancelled.")
        order["status"] = "CANCELLED"
        return await reply(order)

    async def get_tickets(self, customer_id):
        """The support tickets of a customer: status by id."""
        return await reply(statuses(self.tickets, customer_id))

    async def escalate_ticket(self, ticket_id):
        """Hand an open ticket to the second line."""
        self.tickets[ticket_id]["status"] = "ESCALATED"
        return await reply(self.tickets[ticket_id])


async def reply(record):
    """What a service on the network would answer: not at once, and a copy."""
    await asyncio.sleep(0)
    return dict(record)


def statuses(records, customer_id):
    """Status by id of the records that belong to a customer."""
    return {key: record["status"] for key, record in records.items() if record["customer_id"] == customer_id}
