# SPDX-License-Identifier: Apache-2.0
"""What is said to PostgreSQL: each verb of the store is one statement, and so one transaction.

$1 is the place. Of a statement that writes, a row in the answer says that it did; others hear of it
when it is committed. `changed` is the transaction that wrote a row: changes() compares it with the
snapshot that was read before, since numbers of rows would not be committed in their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opensandbox_server.store.stored import (
    COLUMNS,
    JSON_COLUMNS,
    TIME_COLUMNS,
    WANTED_COLUMNS,
)

CHANNEL = "opensandbox"
"""Where places are named in which something changed."""

_TYPES: Mapping[str, str] = (
    dict.fromkeys(COLUMNS, "text")
    | dict.fromkeys(TIME_COLUMNS, "timestamptz")
    | dict.fromkeys(JSON_COLUMNS, "json")
    | dict.fromkeys(("has_answered", "is_repeatable"), "boolean")
    | {"metadata": "jsonb", "revision": "bigint"}
)


def _values(columns: Sequence[str], first: int) -> Mapping[str, str]:
    """Say where the values of columns are among the parameters, with their types."""
    return {name: f"${number}::{_TYPES[name]}" for number, name in enumerate(columns, first)}


def _noted(at: int, kind: str, message: int, kept: int) -> str:
    """Write an event of the row in `done`, and forget the oldest but so many."""
    return f"""
noted AS (
    INSERT INTO events (place, sandbox_id, at, kind, message)
    SELECT $1, id, ${at}::timestamptz, {kind}, ${message}::text FROM done
), forgotten AS (
    DELETE FROM events WHERE place = $1 AND sandbox_id = (SELECT id FROM done) AND number <= (
        SELECT number FROM events WHERE place = $1 AND sandbox_id = $2
        ORDER BY number DESC LIMIT 1 OFFSET ${kept}::bigint - 1)
)"""


_HERE = "place = $1 AND id = $2"
_COLUMNS = ", ".join(COLUMNS)
_TELL = f"SELECT pg_notify('{CHANNEL}', $1) FROM done"

SELECT = f"SELECT {_COLUMNS} FROM sandboxes WHERE place = $1"
GET = f"SELECT {_COLUMNS} FROM sandboxes WHERE {_HERE}"

# $2… all columns, then the time and the message of the event.
_NEW = _values(COLUMNS, 2)
_AFTER = len(COLUMNS) + 2
_MADE = f"""
done AS (
    INSERT INTO sandboxes (place, changed, {_COLUMNS})
    SELECT $1::text, pg_current_xact_id(), {", ".join(_NEW.values())} %s RETURNING id
), noted AS (
    INSERT INTO events (place, sandbox_id, at, kind, message)
    SELECT $1, id, ${_AFTER}::timestamptz, 'Created', ${_AFTER + 1}::text FROM done
) {_TELL}"""
INSERT = f"WITH {_MADE % ''}"

# … and the key: owner, key, fingerprint, sandbox, how long one lasts. A former one may be too old.
INSERT_WITH_KEY = f"""
WITH taken AS (
    INSERT INTO idempotency AS former (place, owner, key, fingerprint, sandbox_id)
    VALUES ($1, {", ".join(f"${_AFTER + number}" for number in range(2, 6))})
    ON CONFLICT (place, owner, key) DO UPDATE
    SET fingerprint = EXCLUDED.fingerprint, sandbox_id = EXCLUDED.sandbox_id, at = now()
    WHERE former.at < now() - make_interval(secs => ${_AFTER + 6})
    RETURNING key
), {_MADE % "FROM taken"}"""

# $2 id, $3 expected revision, $4 state seen or '', $5 time, $6 kind, $7 message, $8 events kept,
# then what is wanted.
_WANTED = _values(WANTED_COLUMNS, 9)
UPDATE = f"""
WITH done AS (
    UPDATE sandboxes SET {", ".join(f"{name} = {value}" for name, value in _WANTED.items())},
        state = CASE $4::text WHEN '' THEN state ELSE $4 END,
        state_at = CASE $4 WHEN '' THEN state_at ELSE $5::timestamptz END,
        changed = pg_current_xact_id()
    WHERE {_HERE} AND revision = $3::bigint RETURNING id
), {_noted(5, "$6::text", 7, 8)} {_TELL}"""

# $2 id, $3 time, $4 kind, $5 message, $6 events kept, $7 state.
NOTE = f"""
WITH done AS (SELECT id FROM sandboxes WHERE {_HERE}), {_noted(3, "$4::text", 5, 6)}
SELECT id FROM done"""
NOTE_STATE = f"""
WITH done AS (
    UPDATE sandboxes SET state = $7, state_at = $3::timestamptz, changed = pg_current_xact_id()
    WHERE {_HERE} AND state <> $7::text RETURNING id
), {_noted(3, "$4::text", 5, 6)} {_TELL}"""

# $2 id, $3 whether its key may be used again. Events go with the row.
DELETE = f"""
WITH done AS (
    DELETE FROM sandboxes WHERE {_HERE} RETURNING id
), freed AS (
    DELETE FROM idempotency WHERE place = $1 AND sandbox_id = $2 AND $3::boolean
), remembered AS (
    INSERT INTO deletions (place, sandbox_id, changed)
    SELECT $1, id, pg_current_xact_id() FROM done
) {_TELL}"""

EVENTS = """
SELECT at, kind, message FROM events WHERE place = $1 AND sandbox_id = $2
ORDER BY number DESC LIMIT $3"""

# $2 owner, $3 key, $4 how long one lasts.
KEY = """
SELECT owner, key, fingerprint, sandbox_id FROM idempotency
WHERE place = $1 AND owner = $2 AND key = $3 AND at >= now() - make_interval(secs => $4)"""

# $2 id, $3 who asks, $4 seconds of a lease, $5 seconds of a create. All by the database's clock.
_OVER_AT = (
    "LEAST(expires_at, CASE WHEN NOT has_answered THEN created_at + make_interval(secs => $5) END)"
)
DUE = f"""
WITH done AS (
    UPDATE sandboxes SET lease_by = $3, lease_until = now() + make_interval(secs => $4),
        revision = revision + 1, changed = pg_current_xact_id()
    WHERE {_HERE} AND {_OVER_AT} <= now()
        AND (lease_until IS NULL OR lease_until <= now() OR lease_by = $3::text)
    RETURNING pg_notify('{CHANNEL}', $1)
)
SELECT EXISTS (SELECT FROM done) AS is_given, extract(epoch FROM
    GREATEST(CASE WHEN lease_by <> $3 THEN lease_until END, {_OVER_AT}) - now())::float8 AS seconds
FROM sandboxes WHERE {_HERE}"""

# The first row has no id: there is always one. A row without a spec is a deletion.
_POSITION = f"""
SELECT pg_current_snapshot()::text AS position, FALSE AS is_late, {_COLUMNS}
FROM (VALUES (1)) AS always LEFT JOIN"""
EVERYTHING = f"{_POSITION} sandboxes ON place = $1"
# $2 the snapshot that was read before. What is older than all that went on then is in it.
_NEWS = (
    "place = $1 AND changed >= pg_snapshot_xmin($2::text::pg_snapshot)"
    " AND NOT pg_visible_in_snapshot(changed, $2::text::pg_snapshot)"
)
_IS_LATE = "pruned >= pg_snapshot_xmin($2::text::pg_snapshot)"
_NOTHING = ", ".join(f"NULL::{_TYPES[name]}" for name in COLUMNS if name != "id")
CHANGES = f"""
SELECT pg_current_snapshot()::text AS position,
    EXISTS (SELECT FROM places WHERE place = $1 AND {_IS_LATE}) AS is_late,
    {_COLUMNS}
FROM (VALUES (1)) AS always LEFT JOIN (
    SELECT {_COLUMNS} FROM sandboxes WHERE {_NEWS}
    UNION ALL
    SELECT sandbox_id, {_NOTHING} FROM deletions WHERE {_NEWS}
) AS news ON TRUE"""

KNOW_PLACE = "INSERT INTO places (place) VALUES ($1) ON CONFLICT (place) DO NOTHING"
WRITE_SOMETHING = f"{KNOW_PLACE.removesuffix('NOTHING')} UPDATE SET place = EXCLUDED.place"
BELONG = """
UPDATE places SET belongs = TRUE
WHERE place = $1 AND (belongs OR cardinality($2::text[]) = 0
    OR EXISTS (SELECT FROM sandboxes WHERE place = $1 AND id = ANY ($2)))
RETURNING place"""
HOLD = "SELECT pg_try_advisory_lock(hashtextextended('opensandbox place ' || $1, 0))"

# Transactions of another cluster, whose dump was restored here: theirs are no numbers of ours.
_FOREIGN = "place = $1 AND {} >= pg_snapshot_xmax(pg_current_snapshot())"
AFTER_RESTORE = (
    f"UPDATE sandboxes SET changed = pg_current_xact_id() WHERE {_FOREIGN.format('changed')}",
    f"UPDATE places SET pruned = pg_current_xact_id() WHERE {_FOREIGN.format('pruned')}",
    f"DELETE FROM deletions WHERE {_FOREIGN.format('changed')}",
)

# $2 for how many seconds deletions are remembered. Who is further behind reads everything. Rows
# that another server is pruning are skipped: nobody waits for anybody but at `places`.
PRUNE = """
WITH old AS (
    DELETE FROM deletions WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM deletions WHERE place = $1 AND at < now() - make_interval(secs => $2)
        FOR UPDATE SKIP LOCKED))
    RETURNING changed
), newest AS (SELECT changed FROM old ORDER BY changed DESC LIMIT 1)
UPDATE places SET pruned = GREATEST(pruned, newest.changed) FROM newest WHERE place = $1"""
FORGET_KEYS = """
DELETE FROM idempotency WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM idempotency WHERE place = $1 AND at < now() - make_interval(secs => $2)
    FOR UPDATE SKIP LOCKED))"""
