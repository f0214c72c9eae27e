package main

import (
	"encoding/binary"
	"errors"
)

// The messages of OTLP have the same field numbers for traces, metrics and logs, so that
// a few lines of protobuf's wire format are enough here:
//
//	Export…Request { repeated Resource… 1 }
//	Resource…      { Resource resource 1; repeated Scope… 2; string schema_url 3 }
//	Scope…         { Scope 1; repeated (Span, Metric or LogRecord) 2; string schema_url 3 }
//	Resource       { repeated KeyValue attributes 1; … }
//	KeyValue       { string key 1; AnyValue value 2 }
//	AnyValue       { string string_value 1; … }

var errWire = errors.New("the body is no protobuf message of OTLP")

// The wire types of protobuf.
const (
	wireVarint = 0
	wire64     = 1
	wireBytes  = 2
	wire32     = 5
)

// fieldOf is a field of a message.
type fieldOf struct {
	number  uint64
	content []byte // of a field with a length
	varint  uint64
	whole   []byte // with tag and length
}

// next splits the first field off a message.
func next(message []byte) (f fieldOf, rest []byte, err error) {
	tag, n := binary.Uvarint(message)
	if n <= 0 || tag>>3 == 0 {
		return f, nil, errWire
	}
	f.number = tag >> 3
	size := uint64(0)
	switch tag & 7 {
	case wireVarint:
		v, more := binary.Uvarint(message[n:])
		if more <= 0 {
			return f, nil, errWire
		}
		f.varint = v
		n += more
	case wire64:
		size = 8
	case wire32:
		size = 4
	case wireBytes:
		length, more := binary.Uvarint(message[n:])
		if more <= 0 {
			return f, nil, errWire
		}
		n += more
		if length > uint64(len(message)-n) {
			return f, nil, errWire
		}
		f.content, size = message[n:n+int(length)], length //nolint:gosec // within the message
	default:
		return f, nil, errWire
	}
	if size > uint64(len(message)-n) {
		return f, nil, errWire
	}
	end := n + int(size) //nolint:gosec // within the message
	f.whole = message[:end]
	return f, message[end:], nil
}

// each calls a function for every field of a message.
func each(message []byte, do func(f fieldOf) error) error {
	for len(message) > 0 {
		f, rest, err := next(message)
		if err != nil {
			return err
		}
		if err := do(f); err != nil {
			return err
		}
		message = rest
	}
	return nil
}

// appendField appends a field with a length.
func appendField(to []byte, number uint64, content []byte) []byte {
	to = binary.AppendUvarint(to, number<<3|wireBytes)
	to = binary.AppendUvarint(to, uint64(len(content)))
	return append(to, content...)
}

// addProtobuf returns a request with attributes added to its resources, and the number of
// spans, metrics or log records in it.
func addProtobuf(request []byte, all []attribute) (out []byte, items int, err error) {
	out = make([]byte, 0, len(request)+512)
	err = each(request, func(f fieldOf) error {
		if f.number != 1 || f.content == nil {
			out = append(out, f.whole...)
			return nil
		}
		entry, n, err := addToEntry(f.content, all)
		items += n
		out = appendField(out, 1, entry)
		return err
	})
	return out, items, err
}

// addToEntry adds attributes to the resource of one entry.
func addToEntry(entry []byte, all []attribute) (out []byte, items int, err error) {
	var resource, rest []byte
	err = each(entry, func(f fieldOf) error {
		switch {
		case f.number == 1 && f.content != nil:
			resource = append(resource, f.content...) // two of them are merged so
			return nil
		case f.number == 2 && f.content != nil:
			if err := each(f.content, func(inner fieldOf) error {
				if inner.number == 2 {
					items++
				}
				return nil
			}); err != nil {
				return err
			}
		}
		rest = append(rest, f.whole...)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	resource, err = addToResource(resource, all)
	return append(appendField(nil, 1, resource), rest...), items, err
}

func addToResource(resource []byte, all []attribute) ([]byte, error) {
	has := map[string]string{}
	var out []byte
	err := each(resource, func(f fieldOf) error {
		if f.number != 1 || f.content == nil {
			out = append(out, f.whole...)
			return nil
		}
		key, value, err := keyValue(f.content)
		if err != nil {
			return err
		}
		has[key] = value
		if !madeUp(key, value) {
			out = append(out, f.whole...)
		}
		return nil
	})
	for _, a := range all {
		if adds(a, has) {
			delete(has, a.key)
			value := appendField(nil, 1, []byte(a.value))
			out = appendField(out, 1, appendField(appendField(nil, 1, []byte(a.key)), 2, value))
		}
	}
	for key, value := range has { // the made-up name, if there is no better one
		if madeUp(key, value) {
			out = appendField(out, 1, appendField(appendField(nil, 1, []byte(key)), 2, appendField(nil, 1, []byte(value))))
		}
	}
	return out, err
}

// keyValue returns the key of an attribute, and its value if that is text.
func keyValue(message []byte) (key, value string, err error) {
	value = "not text"
	err = each(message, func(f fieldOf) error {
		switch {
		case f.number == 1 && f.content != nil:
			key = string(f.content)
		case f.number == 2 && f.content != nil:
			return each(f.content, func(inner fieldOf) error {
				if inner.number == 1 && inner.content != nil {
					value = string(inner.content)
				}
				return nil
			})
		}
		return nil
	})
	return key, value, err
}

// rejected returns what an Export…Response says about items that were not accepted:
// Export…Response { PartialSuccess 1 { int64 rejected 1; string error_message 2 } }.
func rejected(response []byte) (n int64, message string) {
	// Anything else is not an error message.
	_ = each(response, func(f fieldOf) error {
		if f.number != 1 {
			return nil
		}
		return each(f.content, func(inner fieldOf) error {
			switch {
			case inner.number == 1:
				n = int64(inner.varint) //nolint:gosec // that is how protobuf encodes it
			case inner.number == 2:
				message = string(inner.content)
			}
			return nil
		})
	})
	return n, message
}
