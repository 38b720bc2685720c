# python examples/entity_cache_sql.py
"""Customers and orders from a SQL database, shown to the assistant when a question names them.

The memory keeps a copy for an hour, read through a loader; changes are still made only in the database.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import Any

from recollect import Memory

SHOP = "shop.db"
TABLES = {
    "customer": "SELECT name, plan, city FROM customers WHERE id = ?",
    "order": "SELECT item, status, carrier, customer_id AS customer FROM orders WHERE id = ?",
}


def fill_the_shop() -> None:
    with closing(sqlite3.connect(SHOP)) as shop:
        shop.executescript(
            """
            DROP TABLE IF EXISTS customers;
            DROP TABLE IF EXISTS orders;
            CREATE TABLE customers (id TEXT PRIMARY KEY, name TEXT, plan TEXT, city TEXT);
            CREATE TABLE orders (id TEXT PRIMARY KEY, customer_id TEXT, item TEXT, status TEXT, carrier TEXT);
            INSERT INTO customers VALUES ('C-7', 'Bea Lindqvist', 'gold', 'Tarifa');
            INSERT INTO orders VALUES ('K-1042', 'C-7', '9 metre kite', 'packed', NULL);
            """
        )
        shop.commit()


def read(type: str, id: str) -> dict[str, Any] | None:
    """The loader: called on a cache miss, in a thread, once for any number of concurrent callers."""
    print(f"  (querying the database for {type} {id})")
    with closing(sqlite3.connect(SHOP)) as shop:
        shop.row_factory = sqlite3.Row
        row = shop.execute(TABLES[type], (id,)).fetchone()
    return {name: row[name] for name in row.keys() if row[name] is not None} if row else None  # noqa: SIM118


def ship(id: str, carrier: str) -> None:
    with closing(sqlite3.connect(SHOP)) as shop:
        shop.execute("UPDATE orders SET status = 'shipped', carrier = ? WHERE id = ?", (carrier, id))
        shop.commit()


async def ask(memory: Memory, question: str) -> None:
    """Show what an assistant is given for a question that names an order or a customer."""
    chat = memory.user("bea", org="kites").session("today", agent="support")
    system = (await chat.get_context(question, max_tokens=1_000)).system
    known = [line for line in system.splitlines() if "K-1042" in line or "C-7" in line]
    print(f"bea: {question}")
    print("\n".join(f"  {line}" for line in known) or "  nothing is known about it")


async def main() -> None:
    fill_the_shop()
    async with Memory.open("sqlite:///entities.db") as memory:
        entities = memory.entities("kites")
        await entities.invalidate()
        await ask(memory, "Where is order K-1042?")

        order = await entities.get("order", "K-1042", loader=read)
        await entities.get("order", "K-1042", loader=read)  # from the cache: the database is not queried again
        await entities.get("customer", str(order and order["customer"]), loader=read)
        await ask(memory, "Where is order K-1042?")
        await ask(memory, "Which plan does Bea Lindqvist have?")

        ship("K-1042", "DHL")  # whoever changes an order invalidates the copy
        await entities.invalidate("order", "K-1042")
        await entities.get("order", "K-1042", loader=read)
        await ask(memory, "Where is order K-1042?")
        print(f"An order that does not exist: {await entities.get('order', 'K-9999', loader=read)}")


if __name__ == "__main__":
    asyncio.run(main())
