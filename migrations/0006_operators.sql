-- Who may sign in to the console, their sessions, and the failed sign-ins that slow a guesser down.
SET LOCAL lock_timeout = '5s';
SET LOCAL ROLE countersign_owner;

-- No row is ever deleted: a code that once signed acts is never given to somebody else.
CREATE TABLE countersign.operators (
    code text PRIMARY KEY CHECK (countersign.is_code(code)),
    role text NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    password_hash text NOT NULL,
    added_at timestamptz NOT NULL DEFAULT now(),
    disabled_at timestamptz
);

-- The cookie holds a random token; here stands only its SHA-256. `id` is what acts name in `via`.
CREATE TABLE countersign.sessions (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    token_sha256 bytea NOT NULL UNIQUE CHECK (octet_length(token_sha256) = 32),
    operator text NOT NULL REFERENCES countersign.operators (code),
    created_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz
);
CREATE INDEX sessions_open ON countersign.sessions (operator) WHERE ended_at IS NULL;

-- Keyed by address alone (code = '') and by code and address together, so that a stranger cannot
-- lock an operator out.
CREATE TABLE countersign.sign_in_failures (
    code text NOT NULL,
    address text NOT NULL,
    failures integer NOT NULL DEFAULT 1,
    last_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (code, address)
);

GRANT SELECT, INSERT, UPDATE ON countersign.operators, countersign.sessions TO countersign_runtime;
GRANT SELECT, INSERT, UPDATE, DELETE ON countersign.sign_in_failures TO countersign_runtime;
