-- The log's tables, version 1. Run once, when a log is created; then CHECKPOINT, so that no DDL is ever in the WAL.

CREATE TABLE events (
    seq            BIGINT  NOT NULL,  -- position in this log, dense, from 1
    id             VARCHAR NOT NULL,  -- the event's deterministic identity; unique in the log
    session        VARCHAR NOT NULL,
    pool           VARCHAR NOT NULL,
    node           VARCHAR NOT NULL,  -- '' for the session as a whole
    tag            VARCHAR NOT NULL,  -- as 'candidate.proposed.v1'
    agent          VARCHAR NOT NULL,  -- role that said it
    worker         VARCHAR NOT NULL,  -- which worker of the role
    cause          VARCHAR NOT NULL,  -- id of the event it answers, '' for the first
    at_ns          BIGINT  NOT NULL,  -- when it was published, nanoseconds since the epoch
    schema_version INTEGER NOT NULL,  -- the tag's version
    body           VARCHAR NOT NULL,  -- the event as JSON: the exact text that was on the wire
    hash           VARCHAR NOT NULL,  -- sha256 over the previous hash, the columns above and the wire bytes
    wire           VARCHAR NOT NULL   -- the whole message, only where it is not spelled as this program spells it; else ''
);

CREATE TABLE streams (                -- how far each stream has been written down
    identity VARCHAR NOT NULL,        -- name and time of creation: a recreated stream is another stream
    last_seq BIGINT  NOT NULL
);

CREATE TABLE meta (key VARCHAR NOT NULL, value VARCHAR NOT NULL);

-- DuckDB has no privileges; a statement that would change history fails before it takes effect. TRUNCATE counts as DELETE.
CREATE TABLE guard (refused VARCHAR);
CREATE TRIGGER no_update AFTER UPDATE ON events FOR EACH STATEMENT
    INSERT INTO guard SELECT error('the log is append-only: events cannot be updated');
CREATE TRIGGER no_delete AFTER DELETE ON events FOR EACH STATEMENT
    INSERT INTO guard SELECT error('the log is append-only: events cannot be deleted');
