-- Where the code failed: a line for each frame. NULL in rows from before.
ALTER TABLE redrive.ledger ADD COLUMN stack text;

ALTER TYPE redrive.ended_attempt ADD ATTRIBUTE stack text;
