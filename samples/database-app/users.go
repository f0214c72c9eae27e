package main

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/brianvoe/gofakeit/v7"
	mysqldriver "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

// user is a generated user.
type user struct {
	FirstName string `json:"firstName"`
	LastName  string `json:"lastName"`
	Birthday  string `json:"birthday"` // such as 1990-12-31
	Email     string `json:"email"`
	Password  string `json:"password"`
}

// makeUp generates n users.
func makeUp(n int) []user {
	faker := gofakeit.New(0)
	young := time.Now().AddDate(-18, 0, 0)
	all := make([]user, n)
	for i := range all {
		all[i] = user{
			faker.FirstName(), faker.LastName(), faker.DateRange(young.AddDate(-60, 0, 0), young).Format(time.DateOnly),
			faker.Email(), faker.Password(true, true, true, false, false, 16),
		}
	}
	return all
}

// users is the table of users.
type users struct {
	*settings
	db        *sql.DB
	migrating sync.Mutex
}

// open prepares the database; the first statement connects.
func open(getenv func(string) string) (*users, error) {
	c, err := configured(getenv)
	if err != nil {
		return nil, err
	}
	driver, source := "pgx", c.postgresSource()
	if c.kind == mysql {
		driver, source = "mysql", c.mysqlSource()
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return nil, fmt.Errorf("%s gives no usable address of a database", c.from) // the error could contain the password
	}
	// Database plans limit connections, and a database that moved must be found
	// again.
	db.SetMaxOpenConns(5)
	db.SetConnMaxLifetime(5 * time.Minute)
	return &users{settings: c, db: db}, nil
}

func (u *users) close() { u.db.Close() }

func (c *settings) postgresSource() string {
	params := url.Values{"connect_timeout": {"10"}}
	if mode := c.params.Get("sslmode"); mode != "" {
		params.Set("sslmode", mode)
	}
	source := url.URL{Scheme: "postgres", User: url.UserPassword(c.username, c.password),
		Host: net.JoinHostPort(c.host, c.port), Path: "/" + c.database, RawQuery: params.Encode()}
	return source.String()
}

func (c *settings) mysqlSource() string {
	d := mysqldriver.NewConfig()
	d.User, d.Passwd, d.Net, d.Addr, d.DBName = c.username, c.password, "tcp", net.JoinHostPort(c.host, c.port), c.database
	d.TLSConfig, d.Timeout, d.ParseTime = "preferred", 10*time.Second, true
	return d.FormatDSN()
}

// migrate applies outstanding migrations.
func (u *users) migrate(ctx context.Context) error {
	u.migrating.Lock()
	defer u.migrating.Unlock()
	dialect, folder := goose.DialectPostgres, "migrations/postgres"
	if u.kind == mysql {
		dialect, folder = goose.DialectMySQL, "migrations/mysql"
	}
	files, err := fs.Sub(migrations, folder)
	if err != nil {
		return traced(err)
	}
	p, err := goose.NewProvider(dialect, u.db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return traced(err)
	}
	_, err = p.Up(ctx)
	return traced(err)
}

// add stores all users in one transaction.
func (u *users) add(ctx context.Context, all []user) error {
	tx, err := u.db.BeginTx(ctx, nil)
	if err != nil {
		return traced(err)
	}
	defer tx.Rollback()
	// Databases limit the number of values in a statement.
	const atOnce = 1000
	for len(all) > 0 {
		some := all[:min(atOnce, len(all))]
		all = all[len(some):]
		values := make([]any, 0, 5*len(some))
		for _, x := range some {
			values = append(values, x.FirstName, x.LastName, x.Birthday, x.Email, x.Password)
		}
		rows := make([]string, len(some))
		for i := range rows {
			rows[i] = "(?, ?, ?, ?, ?)"
		}
		statement := "INSERT INTO users (first_name, last_name, birthday, email, password) VALUES " + strings.Join(rows, ", ")
		if _, err := tx.ExecContext(ctx, u.dialect(statement), values...); err != nil {
			return traced(err)
		}
	}
	return traced(tx.Commit())
}

// dialect writes placeholders in the database's syntax.
func (u *users) dialect(statement string) string {
	if u.kind == mysql {
		return statement
	}
	var b strings.Builder
	for i, part := range strings.Split(statement, "?") {
		if i > 0 {
			fmt.Fprintf(&b, "$%d", i)
		}
		b.WriteString(part)
	}
	return b.String()
}

// list returns all users in the order they were added, never nil.
func (u *users) list(ctx context.Context) ([]user, error) {
	rows, err := u.db.QueryContext(ctx, "SELECT first_name, last_name, birthday, email, password FROM users ORDER BY id")
	if err != nil {
		return nil, traced(err)
	}
	defer rows.Close()
	all := []user{}
	for rows.Next() {
		var x user
		var birthday time.Time
		if err := rows.Scan(&x.FirstName, &x.LastName, &birthday, &x.Email, &x.Password); err != nil {
			return nil, traced(err)
		}
		x.Birthday = birthday.Format(time.DateOnly)
		all = append(all, x)
	}
	return all, traced(rows.Err())
}

// empty deletes all users.
func (u *users) empty(ctx context.Context) error {
	_, err := u.db.ExecContext(ctx, "DELETE FROM users")
	return traced(err)
}
