package db

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Nanos converts a time for storage: nanoseconds since 1970, UTC. The zero time
// is 0.
func Nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Time is the inverse of Nanos, in UTC.
func Time(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// JSON stores V as JSON text. NULL and empty text scan as the zero value.
type JSON[T any] struct{ V T }

// Value implements driver.Valuer.
func (j JSON[T]) Value() (driver.Value, error) {
	text, err := json.Marshal(j.V)
	if err != nil {
		return nil, err
	}
	return string(text), nil
}

// Scan implements sql.Scanner. It replaces V instead of merging into it.
func (j *JSON[T]) Scan(src any) error {
	var fresh T
	j.V = fresh
	var text []byte
	switch s := src.(type) {
	case nil:
		return nil
	case string:
		text = []byte(s)
	case []byte:
		text = s
	default:
		return fmt.Errorf("JSON column holds %T, want text", src)
	}
	if len(text) == 0 {
		return nil
	}
	return json.Unmarshal(text, &j.V)
}

// Raw is an argument that is not text: an array (a slice), which only PostgreSQL has, or bytes. It is
// passed to the driver as it is.
type Raw struct{ V any }

// arguments converts every argument to nil, int64, float64, bool or string, so
// that both drivers see the same types, except for Raw.
func arguments(args []any) ([]any, error) {
	out := make([]any, len(args))
	for i, arg := range args {
		if raw, ok := arg.(Raw); ok {
			out[i] = raw.V
			continue
		}
		v, err := argument(arg)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
		out[i] = v
	}
	return out, nil
}

func argument(arg any) (any, error) {
	v, err := driver.DefaultParameterConverter.ConvertValue(arg)
	if err != nil {
		return nil, err
	}
	switch x := v.(type) {
	case time.Time:
		return nil, errors.New("a time must be stored with Nanos")
	case []byte:
		if x == nil {
			return nil, nil
		}
		v = string(x)
	}
	if s, ok := v.(string); ok && (strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s)) {
		return nil, ErrText
	}
	return v, nil
}
