package api

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"strconv"
)

// whole is an integer in a request. Like Cloud Controller it also accepts a string,
// "256", which some clients send, but not "256M", "1e3" or "2.0".
type whole[T int | int64] struct{ value T }

var digits = regexp.MustCompile(`^[+-]?[0-9]+$`)

// UnmarshalJSON implements json.Unmarshaler.
func (n *whole[T]) UnmarshalJSON(b []byte) error {
	var text string
	if len(b) == 0 || b[0] != '"' {
		return json.Unmarshal(b, &n.value)
	}
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	wrong := &json.UnmarshalTypeError{Value: "string", Type: reflect.TypeFor[T]()}
	if !digits.MatchString(text) {
		return wrong
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || int64(T(value)) != value {
		wrong.Value = "number " + text
		return wrong
	}
	n.value = T(value)
	return nil
}

// get returns the number, or nil if the request has none.
func (n *whole[T]) get() *T {
	if n == nil {
		return nil
	}
	return &n.value
}

// loose is an object in a request that may have unknown members. Requests with
// unknown members are rejected, except in some inner objects, as in Cloud
// Controller: clients send back there what they received.
type loose[T any] struct{ value T }

// UnmarshalJSON implements json.Unmarshaler.
func (l *loose[T]) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &l.value) }

// strict is an object inside a loose one that may not have unknown members.
type strict[T any] struct{ value T }

// UnmarshalJSON implements json.Unmarshaler.
func (s *strict[T]) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(&s.value)
}

// optional is a member of a request that may be null or absent, which differ. The
// value of null is zero.
type optional[T any] struct {
	set   bool // it is present
	given bool // and not null
	value T
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *optional[T]) UnmarshalJSON(b []byte) error {
	o.set, o.given = true, string(b) != "null"
	return json.Unmarshal(b, &o.value)
}

// object is a JSON object in a request whose numbers keep all their digits. It
// is nil if it is absent or null.
type object map[string]any

// UnmarshalJSON implements json.Unmarshaler.
func (o *object) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return err
	}
	*o = m
	return nil
}
