package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"ingot/internal/base/fault"
)

// DecodeJSON decodes the whole body as one JSON value into v. Unknown fields
// are ignored; use DecodeStrict to reject them. The error names the invalid
// field.
func DecodeJSON(r *http.Request, v any) error { return decode(r, v, false) }

// DecodeStrict is like DecodeJSON, but rejects unknown fields.
func DecodeStrict(r *http.Request, v any) error { return decode(r, v, true) }

// DecodeLine is DecodeStrict for one line of a body that is read line by line.
func DecodeLine(line []byte, v any) error { return decodeFrom(bytes.NewReader(line), v, true) }

func decode(r *http.Request, v any, strict bool) error { return decodeFrom(r.Body, v, strict) }

func decodeFrom(r io.Reader, v any, strict bool) error {
	d := json.NewDecoder(r)
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(v); err != nil {
		return parseFault(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("more than one JSON value")
		}
		return parseFault(err)
	}
	return nil
}

// Set sets a field to a member of a body; nil, an absent member, leaves it unchanged.
func Set[T any](field, member *T) {
	if member != nil {
		*field = *member
	}
}

func parseFault(err error) error {
	var (
		tooLarge *http.MaxBytesError
		wrong    *json.UnmarshalTypeError
		syntax   *json.SyntaxError
		known    *fault.Error
	)
	switch {
	case errors.As(err, &tooLarge):
		return err
	case errors.As(err, &known):
		return known
	case errors.As(err, &wrong):
		where := cmp.Or(wrong.Field, "the request body")
		return fault.Wrap(err, fault.Unprocessable, "%s must be %s, not %s", where, kindName(wrong), wrong.Value)
	case errors.As(err, &syntax):
		return fault.Wrap(err, fault.MessageParse, "Request invalid due to parse error: the JSON is broken at byte %d",
			syntax.Offset)
	case errors.Is(err, io.EOF):
		return fault.Wrap(err, fault.MessageParse, "Request invalid due to parse error: the body is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fault.Wrap(err, fault.MessageParse, "Request invalid due to parse error: the JSON ends too early")
	case strings.HasPrefix(err.Error(), "json: unknown field "):
		return fault.Wrap(err, fault.Unprocessable, "Unknown field(s): %s",
			strings.ReplaceAll(strings.TrimPrefix(err.Error(), "json: unknown field "), `"`, "'"))
	default:
		return fault.Wrap(err, fault.MessageParse,
			"Request invalid due to parse error: the body is not the JSON expected here")
	}
}

// kindName returns the JSON name of the expected type.
func kindName(e *json.UnmarshalTypeError) string {
	switch e.Type.Kind().String() {
	case "string":
		return "a string"
	case "bool":
		return "a boolean"
	case "slice", "array":
		return "a list"
	case "map", "struct":
		return "an object"
	default:
		return "a number"
	}
}
