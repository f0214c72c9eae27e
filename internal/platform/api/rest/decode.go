package rest

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"

	"ingot/internal/base/pattern"
)

// Whole is an integer in a request. Like Cloud Controller it also accepts a string,
// "256", which some clients send, but not "256M", "1e3" or "2.0".
type Whole[T int | int64] struct{ Value T }

var digits = pattern.OnUse(`^[+-]?[0-9]+$`)

// UnmarshalJSON implements json.Unmarshaler.
func (n *Whole[T]) UnmarshalJSON(b []byte) error {
	var text string
	if len(b) == 0 || b[0] != '"' {
		return json.Unmarshal(b, &n.Value)
	}
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	wrong := &json.UnmarshalTypeError{Value: "string", Type: reflect.TypeFor[T]()}
	if !digits().MatchString(text) {
		return wrong
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || int64(T(value)) != value {
		wrong.Value = "number " + text
		return wrong
	}
	n.Value = T(value)
	return nil
}

// Get returns the number, or nil if the request has none.
func (n *Whole[T]) Get() *T {
	if n == nil {
		return nil
	}
	return &n.Value
}

// Loose is an object in a request that may have unknown members. Requests with
// unknown members are rejected, except in some inner objects, as in Cloud
// Controller: clients send back there what they received.
type Loose[T any] struct{ Value T }

// UnmarshalJSON implements json.Unmarshaler.
func (l *Loose[T]) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &l.Value) }

// Strict is an object inside a loose one that may not have unknown members.
type Strict[T any] struct{ Value T }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Strict[T]) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(&s.Value)
}

// Optional is a member of a request that may be null or absent, which differ. The
// value of null is zero.
type Optional[T any] struct {
	Set   bool // it is present
	Given bool // and not null
	Value T
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Optional[T]) UnmarshalJSON(b []byte) error {
	o.Set, o.Given = true, string(b) != "null"
	return json.Unmarshal(b, &o.Value)
}

// Into sets a field to the member if it is present, and reports whether it is.
func (o Optional[T]) Into(field *T) bool {
	if o.Set {
		*field = o.Value
	}
	return o.Set
}

// Object is a JSON object in a request whose numbers keep all their digits. It
// is nil if it is absent or null.
type Object map[string]any

// UnmarshalJSON implements json.Unmarshaler.
func (o *Object) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return err
	}
	*o = m
	return nil
}
