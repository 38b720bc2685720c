"""A memory can be given an expiry from every door: the command line and REST work as Python does."""

from __future__ import annotations

from server_stage import client_of, opened


def test_a_memory_can_be_added_with_an_expiry(recollect):
    added = recollect("add", "The door code is 4711.", "--expires-at", "2999-01-01T00:00:00Z", "--json").json
    assert added["expires_at"] == "2999-01-01T00:00:00Z"
    ran = recollect("add", "Too late.", "--expires-at", "2020-01-01T00:00:00Z")
    assert (ran.code, "expires_at: must be in the future" in ran.err) == (2, True)


async def test_an_expiry_can_be_set_and_removed_over_rest():
    async with opened() as service, client_of(service) as client:
        at = "/api/users/ann/memories"
        code = {"id": "code", "content": "The door code is 4711.", "expires_at": "2999-01-01T00:00:00Z"}
        (added,) = (await client.post(at, json=code)).json()["memories"]
        assert added["expires_at"] == "2999-01-01T00:00:00Z"
        assert (await client.patch(f"{at}/code", json={"expires_at": "never"})).json()["expires_at"] is None
        assert len((await client.get(f"{at}/code/history")).json()["history"]) == 1
        late = await client.patch(f"{at}/code", json={"expires_at": "2020-01-01"})
        assert late.status_code in (400, 422)
