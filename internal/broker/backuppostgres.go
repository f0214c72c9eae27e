package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"ingot/internal/base/daemon"
	"ingot/internal/base/pattern"
	"ingot/internal/broker/dump"
)

// program returns one of PostgreSQL's programs. It runs as the user of the server.
func (p *postgres) program(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	return daemon.Command(ctx, p.owner, "/", env, filepath.Join(p.bin, name), args...)
}

// client returns one of PostgreSQL's programs that connects to an instance's database.
func (p *postgres) client(ctx context.Context, i *instance, user, password, name string, args ...string) *exec.Cmd {
	env := []string{"PGPASSWORD=" + password, "PGCONNECT_TIMEOUT=10", "PGSSLMODE=disable",
		"PGOPTIONS=-c default_transaction_read_only=off"}
	return p.program(ctx, env, name, append([]string{"-h", p.at.Host, "-p", strconv.Itoa(p.at.Port), "-U", user, "-d",
		i.database()}, args...)...)
}

// dump runs as the administrator: pg_dump calls no functions of the database and reads
// no views. The server does not notice that pg_dump was killed while it waits for a lock of
// the tenant, so it has a limit as well.
func (p *postgres) dump(ctx context.Context, i *instance, //nolint:unparam // other kinds lose objects
	w io.Writer) (dump.Lost, error) {
	return dump.Lost{}, dump.Pipe(p.client(ctx, i, p.config.User, p.config.Password, "pg_dump", "--format=custom",
		fmt.Sprintf("--lock-wait-timeout=%d", maxStall.Milliseconds())), nil, w)
}

func (p *postgres) before(*instance, io.Reader) error { return nil }

// after loads the data as a temporary user. Loading calls the tenant's functions, for
// example those of check constraints, and a function can return to the user that has
// logged in: so it is not enough that the administrator switches to the owner.
func (p *postgres) after(ctx context.Context, i *instance, open opener, limit time.Duration) (missing dump.Lost,
	err error) {
	err = p.alone(ctx, i, func(p *postgres) error {
		list, err := p.toLoad(ctx, i, open)
		if err != nil {
			return err
		}
		err = p.withTemporary(ctx, i, func(password string) error {
			missing, err = p.load(ctx, i, password, list, open, limit)
			return err
		})
		// This connection is from before: it fails if the server has crashed meanwhile.
		return errors.Join(err, p.exec(ctx, "SELECT 1"))
	})
	return missing, err
}

// withTemporary calls f while there is a user with the rights of the instance's owner.
func (p *postgres) withTemporary(ctx context.Context, i *instance, f func(password string) error) error {
	password := newNonce()
	verifier, err := scram(password)
	if err != nil {
		return err
	}
	user, owner := quote(i.temporary()), quote(i.owner())
	err = p.exec(ctx, fmt.Sprintf("CREATE ROLE %s LOGIN INHERIT NOSUPERUSER PASSWORD '%s' IN ROLE %s", user,
		verifier, owner))
	if err != nil {
		return err
	}
	err = f(password)
	ctx = context.WithoutCancel(ctx)
	return errors.Join(err, p.inside(ctx, i, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE "+
			"usename OPERATOR(pg_catalog.=) $1", i.temporary()); err != nil {
			return err
		}
		return inTx(ctx, conn, "REASSIGN OWNED BY "+user+" TO "+owner, "DROP OWNED BY "+user, "DROP ROLE "+user)
	}))
}

// An extension in a list of pg_restore, or its comment.
var extensionEntry = pattern.OnUse(`^\d+; \d+ \d+ (?:EXTENSION - |COMMENT - EXTENSION )"?([^" ]+)"? `)

// toLoad returns the list of what is in the dump, as pg_restore expects it, without the
// extensions that the database has: they belong to the administrator.
func (p *postgres) toLoad(ctx context.Context, i *instance, open opener) ([]byte, error) {
	has := map[string]bool{}
	err := p.inside(ctx, i, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "SELECT extname FROM pg_catalog.pg_extension")
		if err != nil {
			return err
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, name := range names {
			has[name] = true
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	r, err := open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var all, kept bytes.Buffer
	if err := dump.Pipe(p.program(ctx, nil, "pg_restore", "--list"), r, &all); err != nil {
		return nil, err
	}
	for line := range bytes.Lines(all.Bytes()) {
		if found := extensionEntry().FindSubmatch(line); len(found) > 1 && has[string(found[1])] {
			continue
		}
		kept.Write(line)
	}
	return kept.Bytes(), nil
}

// load runs pg_restore, which continues after errors. An error that ends it counts as the
// tenant's, which can close the connection: other instances still have to be restored.
func (p *postgres) load(ctx context.Context, i *instance, password string, list []byte, open opener,
	limit time.Duration) (missing dump.Lost, err error) {
	path := filepath.Join(p.dir, i.temporary()+".list")
	if err := daemon.WriteFile(path, list, p.owner); err != nil {
		return missing, err
	}
	defer os.Remove(path)
	r, err := open()
	if err != nil {
		return missing, err
	}
	defer r.Close()
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := p.client(limited, i, i.temporary(), password, "pg_restore", "--no-owner", "--role="+i.owner(),
		"--use-list="+path)
	var said dump.RestoreErrors
	cmd.Stdin, cmd.Stderr = r, &said
	err = cmd.Run()
	var exit *exec.ExitError
	if err == nil || ctx.Err() != nil || !errors.As(err, &exit) {
		return missing, errors.Join(err, ctx.Err())
	}
	if err := said.Unreachable(); err != nil {
		return missing, err
	}
	if limited.Err() != nil { // its connection is ended by the caller
		missing.Add("what follows", tooSlow(limit))
		return missing, nil
	}
	return said.Lost(), nil
}
