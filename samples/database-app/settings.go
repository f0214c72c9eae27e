package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"ingot/samples/internal/sample"
)

// kind is a type of database.
type kind struct {
	name  string
	port  string   // default port
	words []string // names in schemes, labels and tags
}

var (
	postgres = &kind{"PostgreSQL", "5432", []string{"postgres", "postgresql", "pgsql"}}
	mysql    = &kind{"MySQL", "3306", []string{"mysql", "mysql2", "mariadb"}}
)

func kindOf(word string) *kind {
	for _, k := range []*kind{postgres, mysql} {
		if slices.Contains(k.words, strings.ToLower(word)) {
			return k
		}
	}
	return nil
}

// settings are the connection settings of the database.
type settings struct {
	kind                                     *kind
	from                                     string // where the settings come from
	host, port, database, username, password string
	params                                   url.Values // additional parameters of a service's uri
}

// configured returns the settings of the bound database, or those of the local
// environment if none is bound.
func configured(getenv func(string) string) (*settings, error) {
	services, err := sample.Services(getenv("VCAP_SERVICES"))
	if err != nil {
		return nil, err
	}
	wanted := getenv("DATABASE_SERVICE")
	var found []*settings
	var names []string
	for _, s := range services {
		if k := serviceKind(&s); k != nil && (wanted == "" || s.Name == wanted) {
			found, names = append(found, fromService(k, &s)), append(names, s.Name)
		}
	}
	var c *settings
	switch {
	case len(found) > 1:
		return nil,
			fmt.Errorf("several databases are bound to this app: %s; set DATABASE_SERVICE to the name of the one to use (cf "+
				"set-env APP DATABASE_SERVICE %s) and restart it",
				strings.Join(names, ", "), names[0])
	case len(found) == 1:
		c = found[0]
	case wanted != "":
		return nil,
			fmt.Errorf("no database with the name %q (DATABASE_SERVICE) is bound to this app: bind it (cf bind-service APP "+
				"%s) and restage the app", wanted, wanted)
	default:
		if c, err = local(getenv); err != nil {
			return nil, err
		}
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	return c, nil
}

// serviceKind returns the type of a service's database, from the uri of its
// credentials or from its label and tags, or nil if it is not a supported
// database.
func serviceKind(s *sample.Service) *kind {
	if u, err := url.Parse(s.Credential("uri")); err == nil && u.Scheme != "" {
		return kindOf(u.Scheme)
	}
	for _, word := range append([]string{s.Label}, s.Tags...) {
		if k := kindOf(word); k != nil {
			return k
		}
	}
	return nil
}

func fromService(k *kind, s *sample.Service) *settings {
	c := &settings{
		kind: k, from: "the service " + s.Name, host: s.Credential("host"), port: s.Credential("port"),
		database: s.Credential("database"),
		username: s.Credential("username"), password: s.Credential("password"),
	}
	if u, err := url.Parse(s.Credential("uri")); err == nil {
		c.params = u.Query()
	}
	return c
}

// local reads the environment variables of a developer's machine.
func local(getenv func(string) string) (*settings, error) {
	word, host := getenv("DB_CONNECTION"), getenv("DB_HOST")
	if word == "" && host == "" {
		return nil,
			errors.New("no database is bound to this app, and the environment names none: bind one (cf bind-service APP " +
				"INSTANCE) and restage the app, " +
				"or, on your own machine, set DB_CONNECTION (postgres or mysql), DB_HOST, DB_PORT, DB_DATABASE, DB_USERNAME and " +
				"DB_PASSWORD")
	}
	k := kindOf(cmp.Or(word, "postgres"))
	if k == nil {
		return nil, fmt.Errorf("DB_CONNECTION is %q, and has to be postgres or mysql", word)
	}
	return &settings{
		kind: k, from: "the local environment", host: cmp.Or(host, "127.0.0.1"), port: getenv("DB_PORT"),
		database: getenv("DB_DATABASE"),
		username: getenv("DB_USERNAME"), password: getenv("DB_PASSWORD"),
	}, nil
}

// check reports missing settings.
func (c *settings) check() error {
	c.port = cmp.Or(c.port, c.kind.port)
	if n, err := strconv.Atoi(c.port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("%s gives the port %q, which is none", c.from, c.port)
	}
	for _, field := range []struct{ name, value string }{{"host", c.host}, {"database", c.database},
		{"username", c.username}} {
		if field.value == "" {
			return fmt.Errorf("%s gives no %s of the database", c.from, field.name)
		}
	}
	return nil
}
