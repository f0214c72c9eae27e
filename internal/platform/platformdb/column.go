package platformdb

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/platform"
)

// kind says what a field holds, and so what it can be compared with.
type kind int

const (
	opaque  kind = iota // cannot be queried: lists, maps and secrets
	exact               // text, compared as it is
	folded              // text in lower case: what it is compared with is lowered, too
	number              // a whole number
	instant             // a time
	boolean             // a condition
)

// column is how one field of T is stored.
type column[T any] struct {
	field string // its name in queries
	name  string // its name in the table
	kind  kind
	// sealed columns are encrypted.
	sealed bool
	// members is where a list can be looked up from its other side.
	members  *members
	elements func(row *T) []string
	write    func(tx *db.Tx, row *T) (any, error)
	// read sets the field from what a driver returns.
	read func(tx *db.Tx, row *T, src any) error
}

// named gives the column a name other than the field's, which SQL wants for
// itself.
func (c column[T]) named(name string) column[T] {
	c.name = name
	return c
}

// text is text that is compared as it is.
func text[T any, S ~string](field string, at func(*T) *S) column[T] {
	return column[T]{
		field: field, name: field, kind: exact,
		write: func(_ *db.Tx, row *T) (any, error) { return string(*at(row)), nil },
		read: func(_ *db.Tx, row *T, src any) error {
			s, err := asText(src)
			*at(row) = S(s)
			return err
		},
	}
}

// name is text by which A to Z and a to z are the same. A second column
// NAME_key holds it in lower case.
func name[T any](field string, at func(*T) *string) column[T] {
	c := text(field, at)
	c.kind = folded
	return c
}

// key is the second column of a name. It is never read.
func (c column[T]) key() column[T] {
	write := c.write
	return column[T]{name: c.name + "_key", write: func(tx *db.Tx, row *T) (any, error) {
		v, err := write(tx, row)
		if err != nil {
			return nil, err
		}
		return db.Lower(v.(string)), nil
	}}
}

func integer[T any, N ~int | ~int64 | ~uint64](field string, at func(*T) *N) column[T] {
	return column[T]{
		field: field, name: field, kind: number,
		write: func(_ *db.Tx, row *T) (any, error) { return int64(*at(row)), nil },
		read: func(_ *db.Tx, row *T, src any) error {
			n, err := asInteger(src)
			*at(row) = N(n)
			return err
		},
	}
}

func moment[T any](field string, at func(*T) *time.Time) column[T] {
	return column[T]{
		field: field, name: field, kind: instant,
		write: func(_ *db.Tx, row *T) (any, error) { return db.Nanos(*at(row)), nil },
		read: func(_ *db.Tx, row *T, src any) error {
			n, err := asInteger(src)
			*at(row) = db.Time(n)
			return err
		},
	}
}

func flag[T any](field string, at func(*T) *bool) column[T] {
	return column[T]{
		field: field, name: field, kind: boolean,
		write: func(_ *db.Tx, row *T) (any, error) { return *at(row), nil },
		read: func(_ *db.Tx, row *T, src any) (err error) {
			*at(row), err = asBool(src)
			return err
		},
	}
}

// object is anything else, as JSON.
func object[T, V any](name string, at func(*T) *V) column[T] {
	return column[T]{
		name:  name,
		write: func(_ *db.Tx, row *T) (any, error) { return encode(*at(row)) },
		read: func(_ *db.Tx, row *T, src any) error {
			s, err := asText(src)
			if err != nil {
				return err
			}
			return decode(s, at(row))
		},
	}
}

// members is a table of pairs: who has a list, and one element of it.
type members struct{ table, owner, member string }

// linked is a list of guids that can be looked up from the other side.
func linked[T any](name string, m members, at func(*T) *[]string) column[T] {
	c := object(name, at)
	c.members, c.elements = &m, func(row *T) []string { return *at(row) }
	return c
}

// sealed is a secret, as JSON, encrypted for the row of its table.
func sealed[T, V any](table, name string, base func(*T) *platform.Resource, at func(*T) *V) column[T] {
	place := table + "." + name
	return column[T]{
		name: name, sealed: true,
		write: func(tx *db.Tx, row *T) (any, error) {
			plain, err := encode(*at(row))
			if err != nil || plain == "" {
				return "", err
			}
			return tx.Seal(place, base(row).GUID, []byte(plain)), nil
		},
		// The guid is the first column, so it has been read.
		read: func(tx *db.Tx, row *T, src any) error {
			s, err := asText(src)
			if err != nil || s == "" {
				var none V
				*at(row) = none
				return err
			}
			plain, err := tx.Unseal(place, base(row).GUID, s)
			if err != nil {
				return err
			}
			return decode(string(plain), at(row))
		},
	}
}

// encode is JSON, and nothing for what is empty.
func encode(v any) (string, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	switch s := string(plain); s {
	case "null", "{}", "[]", `""`:
		return "", nil
	default:
		return s, nil
	}
}

// decode is the inverse of encode. Numbers of no known type keep all their
// digits.
func decode[V any](s string, to *V) error {
	var fresh V
	*to = fresh
	if s == "" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader([]byte(s)))
	d.UseNumber()
	return d.Decode(to)
}

func asText(src any) (string, error) {
	switch v := src.(type) {
	case string:
		return v, nil
	case []byte:
		return string(v), nil
	}
	return "", fmt.Errorf("text column holds %T", src)
}

func asInteger(src any) (int64, error) {
	if n, ok := src.(int64); ok {
		return n, nil
	}
	return 0, fmt.Errorf("number column holds %T", src)
}

func asBool(src any) (bool, error) {
	switch v := src.(type) {
	case bool:
		return v, nil
	case int64:
		return v != 0, nil
	}
	return false, fmt.Errorf("boolean column holds %T", src)
}
